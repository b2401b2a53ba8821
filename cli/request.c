/* The options of `zoe generate` as a table, and the checks that need no file. */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"
#include "options.h"

static const char default_out[] = "zoe.mp4";

static const char *const solver_words[] = {"unipc", "dpm++", "euler", NULL};
static const zoe_solver_kind solver_kinds[] = {ZOE_SOLVER_UNIPC, ZOE_SOLVER_DPMPP,
                                               ZOE_SOLVER_EULER};
static const char *const dtype_words[] = {"f32", "bf16", NULL};
static const char *const progress_words[] = {"auto", "plain", "json", "none", NULL};
static const char *const task_words[] = {"i2v-A14B", NULL};
static const char *const bool_words[] = {"True", "False", "yes", "no", "t", "f",
                                         "y",    "n",     "1",   "0",  NULL};
static const char *const one_word[] = {"1", NULL};

#define AT(member) .at = offsetof(zoe_request, member)
#define AT2(member, member2)                                                                       \
    .at = offsetof(zoe_request, member), .at2 = offsetof(zoe_request, member2)
#define GROUP(text)                                                                                \
    {                                                                                              \
        .type = ZOE_OPTION_GROUP, .help = text                                                     \
    }
#define OFFICIAL(official, ours)                                                                   \
    {                                                                                              \
        .type = ZOE_OPTION_ALIAS, .name = official, .same_as = ours                                \
    }

static const char prompt_extension[] =
    "prompts are not rewritten by a language model here; give the long prompt itself";

/* clang-format off */
static const zoe_option rows[] = {
    GROUP("Model"),
    {ZOE_OPTION_TEXT, "model", AT(job.model), .value = "DIR",
     .help = "checkpoint in the official or the diffusers layout"},
    {ZOE_OPTION_TEXT, "high-noise", AT(job.high_noise), .value = "PATH",
     .help = "transformer of the noisy steps: file, shard index or folder;\n"
             "this and the next four replace parts of --model, or all of it"},
    {ZOE_OPTION_TEXT, "low-noise", AT(job.low_noise), .value = "PATH",
     .help = "transformer of the other steps"},
    {ZOE_OPTION_TEXT, "vae", AT(job.vae), .value = "PATH", .help = "video VAE"},
    {ZOE_OPTION_TEXT, "text-encoder", AT(job.text_encoder), .value = "PATH", .help = "umT5 encoder"},
    {ZOE_OPTION_TEXT, "tokenizer", AT(job.tokenizer), .value = "PATH",
     .help = "tokenizer.json, spiece.model or a folder with one"},

    GROUP("Request"),
    {ZOE_OPTION_TEXT, "image", 'i', AT(job.image), .value = "FILE",
     .help = "picture that the video begins with; may also stand alone,\n"
             "without --image, after the options"},
    {ZOE_OPTION_TEXT, "prompt", 'p', AT(job.prompt), .value = "TEXT",
     .help = "what shall happen; without it, an empty prompt"},
    {ZOE_OPTION_TEXT, "negative-prompt", 'n', AT(job.negative_prompt), .value = "TEXT",
     .help = "what shall not be seen [the model's own, in Chinese]"},
    {ZOE_OPTION_FLAG, "no-rotate", AT(job.keep_orientation),
     .help = "ignore the picture's EXIF orientation, as the official\nprogram does"},

    GROUP("Video"),
    {ZOE_OPTION_SIZE, "size", 's', AT2(job.width, job.height), .low = 16, .high = 4096.0 * 4096.0,
     .value = "WxH", .help = "area of the frames; their ratio follows the picture and\n"
                             "both sides become multiples of 16 [1280x720]"},
    {ZOE_OPTION_COUNT, "frames", 'f', AT(job.frames), .low = 1, .high = 100001, .value = "N",
     .help = "number of frames, 4n+1 [81]"},
    {ZOE_OPTION_RATE, "fps", AT2(job.fps_num, job.fps_den), .low = 0.001, .high = 1000, .value = "RATE",
     .help = "frames a second: 16, 23.976 (taken exactly so) or\n24000/1001 [16]"},

    GROUP("Sampling"),
    {ZOE_OPTION_COUNT, "steps", AT(job.steps), .low = 1, .high = 10000, .value = "N",
     .help = "denoising steps [40]"},
    {ZOE_OPTION_WORD, "solver", AT(solver), .words = solver_words, .value = "NAME",
     .help = "unipc, dpm++ or euler [unipc]"},
    {ZOE_OPTION_REAL, "shift", AT(job.shift), .low = 0.001, .high = 1000, .value = "X",
     .help = "shift of the noise schedule [5]"},
    {ZOE_OPTION_PAIR, "guide-scale", AT2(job.guide_low, job.guide_high), .low = 0, .high = 1000,
     .value = "LOW,HIGH", .help = "guidance of the low-noise and the high-noise expert, or\n"
                                  "one number for both; 1 turns it off [3.5,3.5]"},
    {ZOE_OPTION_REAL, "boundary", AT(job.boundary), .low = 0, .high = 1, .value = "X",
     .help = "steps whose noise level is at least this belong to the\nhigh-noise expert [0.9]"},
    {ZOE_OPTION_WHOLE, "seed", AT(job.seed), .value = "N",
     .help = "a negative one is replaced by a random one, which is\nprinted [-1]"},
    {ZOE_OPTION_WORD, "dtype", AT(dtype), .words = dtype_words, .value = "TYPE",
     .help = "f32, or bf16 to round where the official program does [f32]"},

    GROUP("Output"),
    {ZOE_OPTION_TEXT, "out", 'o', AT(job.out), .value = "FILE",
     .help = "video: .mp4, .webm, .y4m, or - for Y4M on standard output\n"
             "[zoe.mp4 if no output is asked for; never over an old one]"},
    {ZOE_OPTION_TEXT, "frames-out", AT(job.frames_out), .value = "DIR",
     .help = "frame_00000.png and so on"},
    {ZOE_OPTION_TEXT, "latents-out", AT(job.latents_out), .value = "FILE",
     .help = "final latent as .safetensors"},
    {ZOE_OPTION_FLAG, "no-metadata", AT(job.no_metadata),
     .help = "do not note prompt and settings in the outputs"},

    GROUP("Running"),
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "[as many as the process may use]; the result does not\ndepend on it"},
    {ZOE_OPTION_FLAG, "dry-run", AT(dry_run), .help = "check everything, print the plan and stop"},
    {ZOE_OPTION_WORD, "progress", AT(progress), .words = progress_words, .value = "STYLE",
     .help = "auto, plain, json (an object a line) or none [auto]"},
    {ZOE_OPTION_FLAG, "verbose", AT(verbose), .help = "also say what is of interest to few"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},

    /* Wan's generate.py */
    OFFICIAL("ckpt_dir", "model"),
    OFFICIAL("frame_num", "frames"),
    OFFICIAL("sample_steps", "steps"),
    OFFICIAL("sample_solver", "solver"),
    OFFICIAL("sample_shift", "shift"),
    OFFICIAL("sample_guide_scale", "guide-scale"),
    OFFICIAL("base_seed", "seed"),
    OFFICIAL("save_file", "out"),
    {ZOE_OPTION_WORD, "task", AT(task), .words = task_words, .value = "NAME"},
    {ZOE_OPTION_MUTE, "offload_model", .words = bool_words, .value = "BOOL",
     .help = "weights are mapped from disk and read when they are needed"},
    {ZOE_OPTION_MUTE, "convert_model_dtype",
     .help = "weights are used in the type in which they are stored; --dtype bf16 rounds in between "
             "as the official program does with them"},
    {ZOE_OPTION_MUTE, "t5_cpu", .help = "everything runs on the CPU"},
    {ZOE_OPTION_MUTE, "t5_fsdp", .help = "one process does all the work"},
    {ZOE_OPTION_MUTE, "dit_fsdp", .help = "one process does all the work"},
    {ZOE_OPTION_MUTE, "ulysses_size", .words = one_word, .value = "N",
     .help = "one process does all the work"},
    {ZOE_OPTION_REFUSE, "use_prompt_extend", .help = prompt_extension},
    {ZOE_OPTION_REFUSE, "prompt_extend_method", .help = prompt_extension},
    {ZOE_OPTION_REFUSE, "prompt_extend_model", .help = prompt_extension},
    {ZOE_OPTION_REFUSE, "prompt_extend_target_lang", .help = prompt_extension},
};
/* clang-format on */

#define ROWS (sizeof rows / sizeof rows[0])
_Static_assert(ROWS <= ZOE_OPTIONS_MAX, "the table is longer than the parser allows");

static int refuse(const char *text)
{
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s", text);
}

static bool was_given(const zoe_options *found, const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (found->given[i] && strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

static bool is_number(const char *text)
{
    const char *end = text + strspn(text, "0123456789.");
    return end != text && *end == '\0' && !zoe_file_exists(text);
}

/* The picture may be given as an operand. */
static int take_operand(zoe_request *request, const zoe_options *found)
{
    if (found->operands == 0)
        return ZOE_EXIT_DONE;
    for (size_t i = 0; i < found->operands; i++)
        if (is_number(found->operand[i]) && was_given(found, "guide-scale"))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "%s: a number that belongs to no option; two guidance scales are "
                              "written as one word: --guide-scale %g,%s",
                              found->operand[i], request->job.guide_low, found->operand[i]);
    if (request->job.image || found->operands > 1)
        return zoe_refuse(
            ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
            "%s: one argument too many, the picture is %s; a prompt with blanks needs "
            "quotes",
            found->operand[request->job.image ? 0 : 1],
            request->job.image ? request->job.image : found->operand[0]);
    request->job.image = found->operand[0];
    return ZOE_EXIT_DONE;
}

static int check_paths(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    const struct {
        const char *option, *path;
    } paths[] = {
        {"--model", p->model},
        {"--high-noise", p->high_noise},
        {"--low-noise", p->low_noise},
        {"--vae", p->vae},
        {"--text-encoder", p->text_encoder},
        {"--tokenizer", p->tokenizer},
        {"--image", p->image},
        {"--out", p->out},
        {"--frames-out", p->frames_out},
        {"--latents-out", p->latents_out},
    };
    enum { PATHS = sizeof paths / sizeof paths[0] };
    for (size_t i = 0; i < PATHS; i++)
        if (paths[i].path && !*paths[i].path)
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s: the path is empty",
                              paths[i].option);
    return ZOE_EXIT_DONE;
}

static int check_inputs(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    if (!p->model && !(p->high_noise && p->low_noise && p->vae && p->text_encoder && p->tokenizer))
        return refuse(
            "--model is missing: the folder of the checkpoint; without it all of "
            "--high-noise, --low-noise, --vae, --text-encoder and --tokenizer are wanted");
    if (!p->image)
        return refuse("--image is missing: the picture that the video begins with");
    return ZOE_EXIT_DONE;
}

static int choose_output(zoe_request *request)
{
    zoe_job_params *p = &request->job;
    if (!p->out && !p->frames_out && !p->latents_out) {
        if (!request->dry_run && zoe_file_exists(default_out))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "no output is named, and %s, which would be taken, is there already: "
                              "give --out, --frames-out or --latents-out",
                              default_out);
        p->out = default_out;
    }
    if (p->out && strcmp(p->out, "-") == 0 && !request->dry_run && isatty(STDOUT_FILENO))
        return refuse("--out -: standard output is a terminal; send it to a file or a program");
    return ZOE_EXIT_DONE;
}

/* Bytes of a text that are no UTF-8 become U+FFFD, which is what the model reads; metadata could
 * not hold them. The copy goes to *mended, the caller's to free. */
static int mend_text(const char **text, char **mended, const char *option)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const size_t bytes = strlen(*text);
    const char *in = *text;
    size_t broken = 0, length;
    bool valid;
    for (size_t i = 0; i < bytes; i += length) {
        length = zoe_character_length(&valid, in + i, bytes - i);
        broken += !valid;
    }
    if (broken == 0)
        return ZOE_EXIT_DONE;
    char *out = bytes < SIZE_MAX / 3 ? malloc(3 * bytes + 1) : NULL;
    if (!out)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    *mended = out;
    *text = out;
    for (size_t i = 0; i < bytes; i += length) {
        length = zoe_character_length(&valid, in + i, bytes - i);
        const size_t written = valid ? length : sizeof replacement - 1;
        memcpy(out, valid ? in + i : replacement, written);
        out += written;
    }
    *out = '\0';
    zoe_warn("%s is not all UTF-8: %zu places of it become U+FFFD", option, broken);
    return ZOE_EXIT_DONE;
}

static int mend_prompts(zoe_request *request)
{
    zoe_job_params *p = &request->job;
    if (!p->prompt)
        p->prompt = "";
    int code = mend_text(&p->prompt, &request->mended[0], "--prompt");
    if (code == ZOE_EXIT_DONE && p->negative_prompt)
        code = mend_text(&p->negative_prompt, &request->mended[1], "--negative-prompt");
    return code;
}

void zoe_request_free(zoe_request *request)
{
    free(request->mended[0]);
    free(request->mended[1]);
}

int zoe_request_read(zoe_request *request, int argc, char **argv)
{
    zoe_options found;
    *request = (zoe_request){0};
    zoe_job_params_init(&request->job);
    if (!zoe_options_parse(&found, request, rows, ROWS, argc, argv, 1, "zoe generate"))
        return refuse(found.mistake);
    if (request->help)
        return ZOE_EXIT_DONE;
    request->job.solver = solver_kinds[request->solver];
    request->job.bf16 = request->dtype == 1;
    if (request->progress == ZOE_PROGRESS_JSON)
        zoe_message_use_json();

    int code = take_operand(request, &found);
    if (code == ZOE_EXIT_DONE)
        code = check_paths(request);
    if (code == ZOE_EXIT_DONE)
        code = check_inputs(request);
    if (code == ZOE_EXIT_DONE)
        code = choose_output(request);
    if (code == ZOE_EXIT_DONE)
        code = mend_prompts(request);
    for (size_t i = 0; i < ROWS && code == ZOE_EXIT_DONE; i++)
        if (found.given[i] && rows[i].type == ZOE_OPTION_MUTE)
            zoe_note("--%s changes nothing: %s", rows[i].name, rows[i].help);
    return code;
}

static const char text[] =
    "The options of Wan's generate.py are taken as well: --ckpt_dir, --frame_num,\n"
    "--sample_steps, --sample_solver, --sample_shift, --sample_guide_scale, --base_seed,\n"
    "--save_file, --task i2v-A14B; those that choose devices or processes change nothing\n"
    "and say so.\n"
    "\n"
    "Examples\n"
    "  The demo model of this repository, a few seconds on any machine:\n"
    "    zoe generate --model models/demo --image examples/red-circle.png \\\n"
    "        --prompt \"a red circle moves right\" --size 64x64 --frames 17 --steps 20 \\\n"
    "        --out demo.mp4\n"
    "  The real checkpoint, first only the plan:\n"
    "    zoe generate --model Wan2.2-I2V-A14B --image cat.png --prompt \"A cat jumps.\" \\\n"
    "        --size 832x480 --frames 81 --dtype bf16 --seed 7 --out cat.mp4 --dry-run\n"
    "  An official command line:\n"
    "    zoe generate --task i2v-A14B --size 1280*720 --ckpt_dir ./Wan2.2-I2V-A14B \\\n"
    "        --offload_model True --convert_model_dtype --image cat.png \\\n"
    "        --prompt \"A cat jumps.\"\n"
    "\n"
    "Exit codes: 0 done; 1 the run failed; 2 the command line is wrong, or an output cannot\n"
    "be where it says; 3 a model or input file is missing or unfit; 4 memory ran out; 130\n"
    "interrupted. Nothing stands under the video's name before it is complete. Messages go\n"
    "to standard error.\n";

const zoe_command zoe_generate_command = {
    .name = "generate",
    .summary = "makes a video from a picture and a prompt",
    .usage = "--model DIR --image FILE --prompt TEXT --out FILE [options]",
    .text = text,
    .rows = rows,
    .n_rows = ROWS,
    .run = zoe_generate_main,
};
