/* What `zoe generate` takes, as a table; and what its help and manual say. */
#include "commands.h"
#include "request.h"

/* The order is that of zoe_solver_kind, zoe_progress_style and zoe_terminal_kind. */
static const char *const solver_words[] = {"unipc", "dpm++", "euler", NULL};
static const char *const progress_words[] = {"auto", "plain", "json", "none", NULL};
static const char *const preview_words[] = {"none", "kitty", "iterm", "sixel", "auto", NULL};
static const char *const dtype_words[] = {"f32", "bf16", NULL};
static const char *const compute_words[] = {"float", "int8", NULL};
static const char *const task_words[] = {"i2v-A14B", "t2v-A14B", "ti2v-5B",   "t2v-1.3B",
                                         "t2v-14B",  "i2v-14B",  "flf2v-14B", NULL};
static const char *const bool_words[] = {"True", "False", "yes", "no", "t", "f",
                                         "y",    "n",     "1",   "0",  NULL};
static const char *const ring_words[] = {"overlap", "steps", NULL};

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
     .help = "checkpoint in the official or the diffusers layout",
     .more = "The official layout is high_noise_model/ and low_noise_model/, or "
             "diffusion_pytorch_model.safetensors (or its index) and config.json; Wan2.1_VAE.pth or "
             "Wan2.2_VAE.pth, models_t5_umt5-xxl-enc-bf16.pth and google/umt5-xxl/; that of diffusers "
             "is model_index.json, transformer/, transformer_2/, vae/, text_encoder/, tokenizer/ and "
             "image_encoder/. Which model it is, is told by the shapes of its tensors; it decides "
             "which pictures are taken and what is meant where an option is not given."},
    {ZOE_OPTION_TEXT, "high-noise", AT(job.high_noise), .value = "PATH",
     .help = "transformer of the noisy steps: file, shard index or folder;\n"
             "this and the next six replace parts of --model, or all of it"},
    {ZOE_OPTION_TEXT, "low-noise", AT(job.low_noise), .value = "PATH",
     .help = "transformer of the other steps"},
    {ZOE_OPTION_TEXT, "transformer", AT(job.transformer), .value = "PATH",
     .help = "the only transformer, of a model without these two"},
    {ZOE_OPTION_TEXT, "vae", AT(job.vae), .value = "PATH", .help = "video VAE"},
    {ZOE_OPTION_TEXT, "text-encoder", AT(job.text_encoder), .value = "PATH", .help = "umT5 encoder"},
    {ZOE_OPTION_TEXT, "tokenizer", AT(job.tokenizer), .value = "PATH",
     .help = "tokenizer.json, spiece.model or a folder with one"},
    {ZOE_OPTION_TEXT, "clip", AT(job.clip), .value = "PATH",
     .help = "CLIP image tower, for Wan 2.1 image-to-video"},

    {ZOE_OPTION_LIST, "lora", AT2(lora, loras), .high = ZOE_JOB_LORAS, .value = "FILE",
     .help = "a LoRA for the transformers; FILE:0.8 gives it a strength,\n"
             "FILE:high=1.0,low=0.8 one for each expert [1; where the\n"
             "name says high or low, for that expert alone]. Again for more",
     .more = "An expert that is not named in the list of strengths does not get it. Up to 8, which add "
             "up. The weights stay as they are on disk. A file that fits nothing in the model is an "
             "error; parts that fit nothing are counted in a warning. For a LoRA or model that is, by its "
             "name or title, made for few steps, a line says which options fit, to be typed; nothing of "
             "it is done unasked."},

    GROUP("Request"),
    {ZOE_OPTION_TEXT, "image", 'i', AT(job.image), .value = "FILE",
     .help = "picture that the video begins with; may also stand alone,\n"
             "without --image, after the options",
     .more = "Its kind is told by its content: PNG, JPEG, WebP, BMP, TIFF, GIF or PNM. Of a GIF "
             "with several pictures the first one counts. Transparency is ignored, with a warning. "
             "Text-to-video models take none; TI2V-5B goes without one, too."},
    {ZOE_OPTION_TEXT, "last-image", AT(job.last_image), .value = "FILE",
     .help = "picture that the video ends with (FLF2V-14B, I2V-A14B)",
     .more = "It becomes as large as the first one's frame, and is stretched if it has another shape. "
             "Models of Wan 2.2 were not trained for it."},
    {ZOE_OPTION_TEXT, "prompt", 'p', AT(job.prompt), .value = "TEXT",
     .help = "what shall happen; without it, an empty prompt",
     .more = "No text is put in the place of an empty one. Bytes that are no UTF-8 are replaced, "
             "with a warning."},
    {ZOE_OPTION_TEXT, "negative-prompt", 'n', AT(job.negative_prompt), .value = "TEXT",
     .help = "what shall not be seen [the model's own, in Chinese]"},
    {ZOE_OPTION_FLAG, "no-rotate", AT(job.keep_orientation),
     .help = "ignore the picture's EXIF orientation, as the official\nprogram does"},
    {ZOE_OPTION_TEXT, "config", AT(config), .value = "FILE",
     .help = "settings of the run in YAML, as --dump-config writes them or\n"
             "as cann-recipes-infer has them; other options change them",
     .more = "Options stand in the file under zoe: by their names. Launch files of "
             "cann-recipes-infer are read as they are (model_args, dit_cache, world_size and so on); "
             "what asks for something that this program cannot do is refused, and what means nothing "
             "here is named once. What the command line gives counts, wherever it stands. Paths in the "
             "file start from the current folder. docs/CONFIG.md has all keys."},
    {ZOE_OPTION_FLAG, "dump-config", AT(dump_config),
     .help = "print all settings, also those not given, as a file for\n"
             "--config, and do nothing else"},
    {ZOE_OPTION_TEXT, "from", AT(from), .value = "FILE",
     .help = "repeat the run that is noted in a video, PNG or latents\n"
             "file of zoe; other options change it",
     .more = "The picture is looked for beside FILE and in the current folder, under the name that "
             "is noted, and taken if it is the same picture by its SHA-256; else --image is wanted. "
             "The model is taken if a folder of its name is in the current folder; else --model is "
             "wanted. A model or picture that is another one is told by a warning. Where the "
             "outputs go is not noted: name them anew."},

    GROUP("Video"),
    {ZOE_OPTION_SIZE, "size", 's', AT2(job.width, job.height), .low = 16, .high = 4096.0 * 4096.0,
     .value = "WxH", .help = "area of the frames; their ratio follows the picture and\n"
                             "both sides become multiples of 16, or of 32 for TI2V-5B.\n"
                             "Without a picture, the size itself [1280x720]",
     .more = "832x480, 832*480 and 832\xc3\x97" "480 are the same. The sides are found by the "
             "official rule; what comes out is printed."},
    {ZOE_OPTION_COUNT, "frames", 'f', AT(job.frames), .low = 1, .high = 100001, .value = "N",
     .help = "number of frames, 4n+1 [81]",
     .more = "This and the other numbers in brackets are those of Wan 2.2 I2V-A14B. Size, frames, "
             "frame rate, steps, shift and guidance of the others: T2V-A14B 1280x720, 81, 16, 40, 12, "
             "3 and 4 (boundary 0.875); TI2V-5B 1280x704, 121, 24, 50, 5, 5; Wan 2.1 T2V-14B 1280x720, "
             "81, 16, 50, 5, 5, and T2V-1.3B the same at 832x480; I2V-14B 1280x720, 81, 16, 40, 5 (3 at "
             "832x480), 5; FLF2V-14B 1280x720, 81, 16, 50, 16, 5."},
    {ZOE_OPTION_RATE, "fps", AT2(job.fps_num, job.fps_den), .low = 0.001, .high = 1000, .value = "RATE",
     .help = "frames a second: 16, 23.976 (taken exactly so) or\n24000/1001 [16]",
     .more = "A decimal fraction is taken as it stands: 23.976 is 2997/125."},

    GROUP("Sampling"),
    {ZOE_OPTION_COUNT, "steps", AT(job.steps), .low = 1, .high = 10000, .value = "N",
     .help = "denoising steps [40]"},
    {ZOE_OPTION_REALS, "step-list", AT2(job.step_list, job.step_list_count), .low = 0.001,
     .high = 1000, .value = "N,N,...",
     .help = "the steps themselves, of a model or LoRA distilled to few:\n"
             "1000,750,500,250. Their number takes the place of --steps,\n"
             "the solver is euler, and guidance is off unless it is asked\nfor [none]",
     .more = "Noise levels of 1000, before the shift, falling; up to 64. They are those that such models "
             "were trained for (denoising_step_list of LightX2V); with shift 5 the four above begin at "
             "noise 1, 0.9375, 0.8333 and 0.625. A note says that guidance is off when none is asked "
             "for. none takes back the list of a file."},
    {ZOE_OPTION_WORD, "solver", AT(solver), .words = solver_words, .value = "NAME",
     .help = "unipc, dpm++ or euler [unipc]; euler with --step-list"},
    {ZOE_OPTION_REAL, "shift", AT(job.shift), .low = 0.001, .high = 1000, .value = "X",
     .help = "shift of the noise schedule [5]"},
    {ZOE_OPTION_PAIR, "guide-scale", AT2(job.guide_low, job.guide_high), .low = 0, .high = 1000,
     .value = "LOW,HIGH", .help = "guidance of the low-noise and the high-noise expert, or\n"
                                  "one number for both; 1 turns it off [3.5,3.5]; it is off\n"
                                  "with --step-list, unless it is given",
     .more = "Without guidance, steps take half the time."},
    {ZOE_OPTION_REAL, "boundary", AT(job.boundary), .low = 0, .high = 1, .value = "X",
     .help = "steps whose noise level is at least this belong to the\nhigh-noise expert [0.9]"},
    {ZOE_OPTION_COUNT, "boundary-step", AT(job.boundary_step), .low = 0, .high = 10000, .value = "N",
     .help = "instead, the first N steps belong to the high-noise expert,\n"
             "whatever their noise level [by --boundary]",
     .more = "Models distilled to few steps are trained so: 2 of 4. Models without experts have none."},
    {ZOE_OPTION_WHOLE, "seed", AT(job.seed), .value = "N",
     .help = "of the noise; a negative one is replaced by a random one,\nwhich is printed [-1]",
     .more = "Any number of 64 bits, of which the low 32 count."},
    {ZOE_OPTION_WORD, "dtype", AT(dtype), .words = dtype_words, .value = "TYPE",
     .help = "f32, or bf16 to round where the official program does [f32]"},
    {ZOE_OPTION_WORD, "compute", AT(compute), .words = compute_words, .value = "KIND",
     .help = "float, or int8 for the large layers of the transformer:\nfaster, not quite the same video [float]",
     .more = "With int8, the weights of attention and feed-forward layers are rounded to 8 bits when "
             "the steps begin, in memory of their own, and what they are multiplied with is rounded on "
             "the way; sums are exact. LoRAs are added to the weights before that. docs/NUMERICS.md "
             "says what it costs."},

    {ZOE_OPTION_TEXT, "cache", AT(job.cache), .value = "METHOD[,KEY=VALUE,...]",
     .help = "leave out steps that would hardly change anything: FBCache,\n"
             "TeaCache, TaylorSeer, EasyCache, DBCache, MagCache or\n"
             "NoCache, as in FBCache,rel_l1_thresh=0.08 [NoCache]",
     .more = "It changes the video; threshold 0 does not. Keys are those that each method has where "
             "it was published; one that the method does not have is refused with a list of those it "
             "has. Refused with fewer than 10 steps and with models and LoRAs made for few steps, unless "
             "force=true. With --checkpoint, its memory is part of what is kept after each step."},

    GROUP("Output"),
    {ZOE_OPTION_TEXT, "out", 'o', AT(job.out), .value = "FILE",
     .help = "video: .mp4, .webm, .y4m, or - for Y4M on standard output\n"
             "[zoe.mp4 if no output is asked for; never over an old one]",
     .more = "MP4 holds H.264, WebM holds VP9. A file of that name is replaced; if it is a link, "
             "the file behind it is. Devices, pipes and sockets are refused. No two outputs may be "
             "the same file, and none may be the picture or a file of the checkpoint."},
    {ZOE_OPTION_TEXT, "frames-out", AT(job.frames_out), .value = "DIR",
     .help = "frame_00000.png and so on",
     .more = "The folder is made if need be. The frames appear when all are there; until then they "
             "are in a hidden folder inside. Frames of an earlier, longer clip stay, and a warning "
             "says so."},
    {ZOE_OPTION_TEXT, "latents-out", AT(job.latents_out), .value = "FILE",
     .help = "final latent as .safetensors", .more = "The tensor is called latents."},
    {ZOE_OPTION_TEXT, "report", AT(job.report), .value = "FILE",
     .help = "one HTML page about the run: frames, request, each step,\n"
             "time, memory, files",
     .more = "It needs no network and no scripts. It is written at the end, also when the run fails or "
             "is interrupted, and then says so; of a run that goes on, it tells of this part. It "
             "names files with their folders, and the prompt, whatever --no-metadata says."},
    {ZOE_OPTION_FLAG, "no-metadata", AT(job.no_metadata),
     .help = "do not note prompt and settings in the outputs",
     .more = "Without it, videos, frames and latents tell how they were made (see --from), by names "
             "without folders."},

    GROUP("Long runs"),
    {ZOE_OPTION_TEXT, "checkpoint", AT(job.checkpoint), .value = "DIR",
     .help = "keep the state of the run there after every stage and step",
     .more = "The folder is made if need be, and must hold no checkpoint yet. A run that was "
             "interrupted or killed goes on with --resume."},
    {ZOE_OPTION_TEXT, "resume", AT(resume), .value = "DIR",
     .help = "go on with the run whose state is kept there; its options\n"
             "need not be given again. Begins anew if the folder is empty",
     .more = "The result has the same bytes as that of a run that was never interrupted. Outputs, "
             "threads and what is shown may change; an option, a model or a picture that would "
             "shape another result is refused. The state is kept there further on."},
    {ZOE_OPTION_BYTES, "memory", AT(job.memory), .low = 1, .value = "SIZE",
     .help = "refuse a run that needs more: a number of bytes, with K, M,\n"
             "G or T (also KiB ...) for powers of 1024, KB, MB, GB or TB\n"
             "for powers of 1000: 24G, 1.5GiB, 800MB",
     .more = "The plan is compared with it before the work starts; what would fit is told."},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]; the\nresult does not depend on it",
     .more = "Affinity and the quota of a cgroup are honoured."},
    {ZOE_OPTION_FLAG, "dry-run", AT(dry_run), .help = "check everything, print the plan and stop"},

    GROUP("Several ranks"),
    {ZOE_OPTION_COUNT, "cfg-ranks", AT(job.cfg_ranks), .low = 1, .high = 2, .value = "N",
     .help = "2: each branch of guidance has half of the ranks; 1: all\n"
             "ranks compute both [2 with guidance and an even number]",
     .more = "Ranks are processes that mpirun or srun starts: mpirun -n 4 zoe generate ... Each runs the "
             "whole command; the first one reads and writes checkpoint, outputs and progress. The "
             "product of this and the next two must be their number; what is not given is chosen. The "
             "result has the bytes of one process, except with a ring, which adds a rounding in f32. "
             "docs/PARALLEL.md has it whole."},
    {ZOE_OPTION_COUNT, "ulysses", AT(job.ulysses), .low = 1, .high = 1000000, .value = "N",
     .help = "ranks that share the tokens of a branch and, in attention,\n"
             "its heads [as many as there are heads for]"},
    {ZOE_OPTION_COUNT, "ring", AT(job.ring), .low = 1, .high = 1000000, .value = "N",
     .help = "ranks that share the tokens and, in attention, pass keys\n"
             "and values round [what is left]"},
    {ZOE_OPTION_WORD, "ring-form", AT(ring_form), .words = ring_words, .value = "WORD",
     .help = "overlap: all keys and values travel while the own ones are\n"
             "attended to; steps: one neighbour's at a time, in less\nmemory [overlap]"},
    {ZOE_OPTION_COUNT, "vae-ranks", AT(job.vae_ranks), .low = 1, .high = 1000000, .value = "N",
     .help = "ranks that share the pictures of the VAE [all]"},
    {ZOE_OPTION_FLAG, "shard-weights", AT(job.shard_weights),
     .help = "each rank keeps a share of the transformer's weights, and\n"
             "gets the rest from the others when it is used"},
    {ZOE_OPTION_TEXT, "trace", AT(job.trace), .value = "FILE",
     .help = "what each rank did when, for chrome://tracing or Perfetto"},

    GROUP("Seeing it run"),
    {ZOE_OPTION_TEXT, "preview", AT(job.preview), .value = "FILE",
     .help = "PNG of what the video is becoming, written after each step",
     .more = "It shows up to five frames in a row: what the network takes for the clean clip, coarse "
             "and in approximate colours."},
    {ZOE_OPTION_TEXT, "preview-factors", AT(job.preview_factors), .value = "FILE",
     .help = "colours of previews, made by zoe preview-fit [preview.json\n"
             "beside the VAE or in the model's folder, else fitted to the\n"
             "picture]"},
    {ZOE_OPTION_WORD, "show-preview", AT(show_preview), .words = preview_words, .value = "WORD",
     .help = "show it in the terminal: auto, kitty, iterm, sixel or none\n[none]",
     .more = "auto looks at the environment for a terminal that is known to show pictures."},
    {ZOE_OPTION_WORD, "progress", AT(progress), .words = progress_words, .value = "STYLE",
     .help = "auto, plain, json (an object a line) or none [auto]",
     .more = "auto is a line that updates on a terminal, and plain elsewhere. plain is a line at the "
             "beginning and end of each phase and for each step. json is for programs; see below. "
             "none leaves warnings, errors and the closing line."},
    {ZOE_OPTION_TEXT, "log", AT(log), .value = "FILE",
     .help = "append everything that is said to a file, with the time",
     .more = "The time is in UTC. Progress is there in plain lines whatever --progress shows, and "
             "notices that only developers want. If the log's disk is full, a warning says so and "
             "the run goes on."},
    {ZOE_OPTION_FLAG, "verbose", AT(verbose), .help = "also say what is of interest to few"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "print this text"},

    /* Wan's generate.py */
    OFFICIAL("ckpt_dir", "model"),
    OFFICIAL("first_frame", "image"),
    OFFICIAL("last_frame", "last-image"),
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
    {ZOE_OPTION_MUTE, "t5_fsdp", .help = "weights are mapped from disk and read when they are needed"},
    {ZOE_OPTION_MUTE, "dit_fsdp", .help = "weights are mapped from disk and read when they are needed"},
    OFFICIAL("cfg_size", "cfg-ranks"),
    OFFICIAL("ulysses_size", "ulysses"),
    OFFICIAL("ring_size", "ring"),
    {ZOE_OPTION_REFUSE, "use_prompt_extend", .help = prompt_extension},
    {ZOE_OPTION_REFUSE, "prompt_extend_method", .help = prompt_extension},
    {ZOE_OPTION_REFUSE, "prompt_extend_model", .help = prompt_extension},
    {ZOE_OPTION_REFUSE, "prompt_extend_target_lang", .help = prompt_extension},
};
/* clang-format on */

_Static_assert((int)ZOE_NUMBERS_MAX == (int)ZOE_JOB_STEP_LIST, "a step list has room");
#define ROWS (sizeof rows / sizeof rows[0])
_Static_assert(ROWS <= ZOE_OPTIONS_MAX, "the table is longer than the parser allows");

static const char text[] =
    "In brackets stands what is taken when an option is not given, for Wan 2.2 I2V-A14B. Other\n"
    "models have defaults of their own; the manual page has them at --frames.\n"
    "\n"
    "The options of Wan's generate.py are taken as well: --ckpt_dir, --frame_num,\n"
    "--sample_steps, --sample_solver, --sample_shift, --sample_guide_scale, --base_seed,\n"
    "--save_file, --first_frame, --last_frame; --task i2v-A14B and the like, which must be\n"
    "the model's own; those that choose devices or processes change nothing and say so.\n"
    "\n"
    "Nothing stands under the video's name before it is complete. Messages go to standard\n"
    "error.\n";

static const char examples[] =
    "The demo model of this repository, a few seconds on any machine:\n"
    "  zoe generate --model models/demo --image examples/red-circle.png \\\n"
    "    --prompt \"a red circle moves right\" --size 64x64 --frames 17 --steps 20 \\\n"
    "    --out demo.mp4\n"
    "The real checkpoint, first only the plan:\n"
    "  zoe generate --model Wan2.2-I2V-A14B --image cat.png --prompt \"A cat jumps.\" \\\n"
    "    --size 832x480 --frames 81 --dtype bf16 --seed 7 --out cat.mp4 --dry-run\n"
    "What a file says, with another seed:\n"
    "  zoe generate --config examples/config/demo.yaml --seed 8 --out demo8.mp4\n"
    "A run that may be killed and goes on:\n"
    "  zoe generate --model Wan2.2-I2V-A14B --image cat.png --prompt \"A cat jumps.\" \\\n"
    "    --out cat.mp4 --resume cat.state\n"
    "The same cat with another seed:\n"
    "  zoe generate --from cat.mp4 --seed 8 --out cat8.mp4\n"
    "An official command line:\n"
    "  zoe generate --task i2v-A14B --size 1280*720 --ckpt_dir ./Wan2.2-I2V-A14B \\\n"
    "    --offload_model True --convert_model_dtype --image cat.png \\\n"
    "    --prompt \"A cat jumps.\"\n"
    "Text to video, and from one picture to another:\n"
    "  zoe generate --model Wan2.2-TI2V-5B --prompt \"A cat jumps.\" --out cat.mp4\n"
    "  zoe generate --model Wan2.1-FLF2V-14B-720P --image cat.png --last-image dog.png \\\n"
    "    --prompt \"A cat becomes a dog.\" --out both.mp4\n"
    "To another encoder:\n"
    "  zoe generate --model Wan2.2-I2V-A14B cat.png --out - |\n"
    "    ffmpeg -i - -c:v libx265 cat.mkv\n";

const zoe_command zoe_generate_command = {
    .name = "generate",
    .summary = "makes a video from a prompt and a picture, or from a prompt alone",
    .usage = "--model DIR --image FILE --prompt TEXT --out FILE [options]\n"
             "--model DIR --prompt TEXT --out FILE [options]\n"
             "--config FILE [options]\n"
             "--resume DIR [options]\n"
             "--from FILE [options]",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .run = zoe_generate_main,
};
