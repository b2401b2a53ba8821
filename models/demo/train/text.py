"""Prompts to padded token ids, as the engine makes them: ids, </s>, cut to text_len with </s> kept last."""
import random

import sentencepiece as spm
import torch

EOS, UNK = 1, 3
# The official default negative prompt of Wan, after the official text cleaning. It means "no caption" here.
NEGATIVE = ("色调艳丽,过曝,静态,细节模糊不清,字幕,风格,作品,画作,画面,静止,整体发灰,最差质量,低质量,JPEG压缩残留,丑陋的,残缺的,多余的手指,"
            "画得不好的手部,画得不好的脸部,畸形的,毁容的,形态畸形的肢体,手指融合,静止不动的画面,杂乱的背景,三条腿,背景人很多,倒着走")


class Tokenizer:
    def __init__(self, path, text_len=64):
        self.sp = spm.SentencePieceProcessor(model_file=path)
        self.text_len = text_len
        self.negative = self.ids(NEGATIVE)
        self.comma = self.sp.encode("a,")[-1]

    def __len__(self):
        return self.sp.get_piece_size()

    def ids(self, text):
        return self.sp.encode(text)[:self.text_len - 1] + [EOS]

    def unconditional(self, rng: random.Random, long):
        """Ids of an empty caption, or (long) of one in a script that the vocabulary lacks."""
        if not long:
            return [EOS]
        if rng.random() < 0.6:
            return list(self.negative)
        n = rng.randint(1, self.text_len - 2)
        return ([self.negative[0]] + [self.comma if i % 2 and rng.random() < 0.8 else UNK for i in range(n)])[
            :self.text_len - 1] + [EOS]

    def batch(self, rows):
        """[(ids)] -> ids [b, n+1], mask; one position more than the longest (if there is room) is a zero row."""
        n = min(self.text_len, max(map(len, rows)) + 1)
        ids = torch.zeros(len(rows), n, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
        lengths = torch.tensor([len(r) for r in rows])
        return ids, torch.arange(n)[None] < lengths[:, None], lengths
