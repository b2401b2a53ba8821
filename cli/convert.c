/* zoe convert: a checkpoint as a new file, with weights of another type. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"
#include "session.h"
#include "store/store.h"

typedef struct convert_request {
    const char *from, *to;
    size_t threads;
    int type; /* index into types */
    bool help;
} convert_request;

static const char *const type_words[] = {"f32",  "f16",  "bf16", "fp8",  "q8_0",
                                         "q6_k", "q5_k", "q5_1", "q5_0", "q4_k",
                                         "q4_1", "q4_0", "q3_k", "q2_k", NULL};
static const zoe_dtype types[] = {ZOE_F32,  ZOE_F16,  ZOE_BF16, ZOE_F8_E4M3, ZOE_Q8_0,
                                  ZOE_Q6_K, ZOE_Q5_K, ZOE_Q5_1, ZOE_Q5_0,    ZOE_Q4_K,
                                  ZOE_Q4_1, ZOE_Q4_0, ZOE_Q3_K, ZOE_Q2_K};

#define AT(member) .at = offsetof(convert_request, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_WORD, "type", AT(type), .words = type_words, .value = "TYPE",
     .help = "what the large matrices become: f32, f16, bf16, fp8,\nq8_0, q6_k, q5_k, q5_1, q5_0, q4_k, q4_1, q4_0, q3_k\nor q2_k"},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]; the\nresult does not depend on it"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

static void show_progress(void *user, size_t bytes, size_t total)
{
    char line[80];
    (void)user;
    if (!zoe_message_on_terminal() || total == 0)
        return;
    snprintf(line, sizeof line, "converting %zu of %zu MiB", bytes >> 20, total >> 20);
    zoe_live_line(line);
}

/* What a conversion that was killed left beside OUT has these letters, for the next one to find. */
static const char part_letters[] = "zconvert";

static int run_request(const convert_request *request)
{
    zoe_conversion conversion = {.type = types[request->type], .done = show_progress};
    zoe_context *ctx = zoe_session_begin(request->threads);
    if (!ctx)
        return ZOE_EXIT_MEMORY;
    zoe_output_sweep(request->to, part_letters);
    zoe_part_letters_use(ctx, part_letters);
    zoe_status status = zoe_output_probe(ctx, request->to);
    if (status == ZOE_IO) /* the fault of the line, not of the work */
        status = ZOE_INVALID;
    if (status == ZOE_OK)
        status = zoe_checkpoint_convert(ctx, request->to, request->from, &conversion);
    const int code = zoe_session_end(ctx, status, true);
    if (code != ZOE_EXIT_DONE)
        return code;
    zoe_note("wrote %s: %zu of %zu tensors are %s now, %.1f MiB of %.1f", request->to,
             conversion.converted, conversion.tensors, type_words[request->type],
             (double)conversion.out / 0x1p20, (double)conversion.in / 0x1p20);
    if (conversion.converted == 0)
        zoe_warn("nothing could become %s: the rows of no matrix are whole blocks of that type; a "
                 "type with smaller blocks, such as q8_0, may do",
                 type_words[request->type]);
    return code;
}

static int run(int argc, char **argv)
{
    zoe_options found;
    convert_request request = {.type = -1};
    int code;
    if (!zoe_command_read(&zoe_convert_command, &found, &request, &request.help, argc, argv, &code))
        return code;
    if (found.operands != 2 || !*found.operand[0] || !*found.operand[1])
        return zoe_refuse_line("a checkpoint and the name of the new file are wanted: "
                               "zoe convert IN OUT --type q8_0");
    if (request.type < 0)
        return zoe_refuse_line(
            "--type is wanted: zoe convert IN OUT --type q8_0; see zoe convert --help");
    request.from = found.operand[0];
    request.to = found.operand[1];
    if (zoe_file_exists(request.to))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s is there already; name another file, or remove it", request.to);
    return run_request(&request);
}

static const char text[] =
    "IN is one part of a model (a transformer, text encoder, VAE or CLIP image tower): the\n"
    "folder of an expert, a .safetensors, .gguf or .pth file, a shard index. OUT ends with\n"
    ".safetensors or .gguf, which says what it becomes: the q types are for .gguf, fp8 (e4m3\n"
    "with a scale for each matrix) is for .safetensors, the others for both.\n"
    "\n"
    "The type is that of the matrices of the transformer's blocks and of the token embedding,\n"
    "which are nearly all of a model. With fp8 and the q types other weights are kept in 16\n"
    "bits, as are matrices whose rows are no whole blocks; norms, biases and modulations are\n"
    "f32. The file is read and written piece by piece, so that memory does not limit its size.\n"
    "\n"
    "Converting from a quantised file to another quantised type loses twice. Beside a new file\n"
    "for zoe generate, copy the config.json of the old one.\n";

static const char examples[] =
    "An expert in 8 bits, nearly without loss:\n"
    "  zoe convert Wan2.2-I2V-A14B/high_noise_model high.gguf --type q8_0\n"
    "The text encoder in half its size:\n"
    "  zoe convert models_t5_umt5-xxl-enc-bf16.pth umt5.safetensors --type fp8\n";

const zoe_command zoe_convert_command = {
    .name = "convert",
    .summary = "writes a checkpoint as a new file with weights of another type",
    .usage = "IN OUT --type TYPE [options]",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .run = run,
    .alone = true,
};
