"""Makes the tokenizer folder: spiece.model, the same as tokenizer.json, and tokenizer_config.json.

    python make_tokenizer.py ../google/umt5-xxl

A SentencePiece unigram model with the special ids of umT5 (<pad> 0, </s> 1, <s> 2, <unk> 3), trained on the captions
of clips.py and on common English words, with every printable ASCII character as a piece: any English prompt can be
written with it. Its normaliser (a small one of its own, to save room) folds letters to lower case, full-width forms
to ASCII, curly quotes to straight ones and all blanks to a space. Other scripts become <unk>.
"""
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb

import clips

VOCAB = 760
WORDS = """
the of and to a in is it you that he was for on are with as his they be at one have this from or had by word but what
some we can out other were all there when up use your how said an each she which do their time if will way about many
then them would write like so these her long make thing see him two has look more day could go come did number sound
no most people my over know water than call first who may down side been now find any new work part take get place
made live where after back little only round man year came show every good me give our under name very through just
form sentence great think say help low line differ turn cause much mean before move right boy old too same tell does
set three want air well also play small end put home read hand port large spell add even land here must big high such
follow act why ask men change went light kind off need house picture try us again animal point mother world near build
self earth father head stand own page should country found answer school grow study still learn plant cover food sun
four between state keep eye never last let thought city tree cross farm hard start might story saw far sea draw left
late run while press close night real life few north open seem together next white children begin got walk example
ease paper group always music those both mark often letter until mile river car feet care second book carry took
science eat room friend began idea fish mountain stop once base hear horse cut sure watch color colour face wood main
enough plain girl usual young ready above ever red list though feel talk bird soon body dog family direct pose leave
song measure door product black short numeral class wind question happen complete ship area half rock order fire south
problem piece told knew pass since top whole king space heard best hour better true during hundred five remember step
early hold west ground interest reach fast verb sing listen six table travel less morning ten simple several toward
against pattern slow center love person money serve appear road map rain rule govern pull cold notice voice unit power
town fine certain fly fall lead cry dark machine note wait plan figure star box noun field rest correct able pound done
beauty drive stood contain front teach week final gave green quick develop ocean warm free minute strong special mind
behind clear tail produce fact street inch multiply nothing course stay wheel full force blue object decide surface
deep moon island foot system busy test record boat common gold possible plane dry wonder laugh thousand ago ran check
game shape hot miss brought heat snow tire bring yes distant fill east paint language among camera pans zooms cinematic
video clip background gradient soft scene frame quality detail style lighting smooth static motion cat beach sky cloud
forest woman robot street circle square triangle ring yellow purple orange cyan pink grey gray brown dot ball disc disk
sphere cube figure diagonal bounces jumps rolls bottom upper lower corner middle edge slightly suddenly continuously
clockwise counterclockwise steadily bigger smaller larger tiny huge away closer motionless frozen
""".split()


def corpus(seed=0):
    rng = random.Random(seed)
    lines = []
    for _ in range(6000):
        pick = (rng.choice(list(clips.COLORS)), rng.choice(clips.SHAPES), rng.choice(clips.MOTIONS),
                rng.choice(clips.SPEEDS))
        lines.append(clips.caption(rng, *pick))
    for _ in range(1500):
        lines.append(" ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 10))) + rng.choice((".", ",", "!", "?", "")))
    for _ in range(150):
        lines.append(str(rng.randrange(10 ** rng.randint(1, 5))) + " " + rng.choice(WORDS))
    return lines


def normaliser_rules():
    """The normaliser as the lines "from<TAB>to" of hexadecimal code points that SentencePiece reads."""
    rules = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
    for c in range(0x21, 0x7f):
        rules[c + 0xfee0] = rules.get(c, c)
    rules |= {c: 0x20 for c in (9, 10, 13, 0xa0, 0x3000)}
    rules |= {0x2018: 0x27, 0x2019: 0x27, 0x201c: 0x22, 0x201d: 0x22, 0x2013: 0x2d, 0x2014: 0x2d}
    return "".join(f"{a:X}\t{b:X}\n" for a, b in sorted(rules.items()))


def train(buf, rules):
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=buf, vocab_size=VOCAB, model_type="unigram", num_threads=1,
        character_coverage=1.0, required_chars="".join(chr(c) for c in range(33, 127) if not chr(c).isupper()),
        pad_id=0, eos_id=1, bos_id=2, unk_id=3, normalization_rule_tsv=rules, minloglevel=2)


def main(out):
    os.makedirs(out, exist_ok=True)
    buf = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(normaliser_rules())
        rules.flush()
        train(buf, rules.name)
    model = pb.ModelProto()
    model.ParseFromString(buf.getvalue())
    with open(os.path.join(out, "spiece.model"), "wb") as f:
        f.write(buf.getvalue())

    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import Unigram
    t = Tokenizer(Unigram([(p.piece, p.score) for p in model.pieces], unk_id=3, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
                                         normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    t.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    t.add_special_tokens(["<pad>", "</s>", "<s>", "<unk>"])
    t.post_processor = processors.TemplateProcessing(single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"],
                                                     special_tokens=[("</s>", 1)])
    t.save(os.path.join(out, "tokenizer.json"))
    with open(os.path.join(out, "tokenizer_config.json"), "w") as f:
        json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", pad_token="<pad>", eos_token="</s>",
                       unk_token="<unk>", bos_token="<s>", model_max_length=1000000,
                       clean_up_tokenization_spaces=False, padding_side="right"), f, indent=1)
    print(len(model.pieces), "pieces")


if __name__ == "__main__":
    main(sys.argv[1])
