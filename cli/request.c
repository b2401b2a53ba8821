/* The request of `zoe generate`, from the command line, the file of --config and, with --resume and
 * --from, a record. */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/comm.h"
#include "commands.h"
#include "job/job.h"
#include "log.h"
#include "lora.h"
#include "message.h"
#include "picture_terminal.h"

static const char default_out[] = "zoe.mp4";

bool zoe_request_gave(const zoe_request *request, const char *option)
{
    const zoe_command *command = &zoe_generate_command;
    for (size_t i = 0; i < command->n_rows; i++)
        if (request->found.given[i] && strcmp(command->rows[i].name, option) == 0)
            return true;
    return false;
}

const char *zoe_request_single(const zoe_request *request)
{
    static const char *const single[] = {"out",    "frames-out", "latents-out", "checkpoint",
                                         "resume", "preview",    "report",      "dry-run",
                                         "trace",  "log",        "verbose",     "dump-config"};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
        if (zoe_request_gave(request, single[i]))
            return single[i];
    /* The words that mean what is done anyway may stand, as they do in a dumped file. */
    if (request->show_preview != ZOE_TERMINAL_NONE)
        return "show-preview";
    return request->progress != ZOE_PROGRESS_AUTO ? "progress" : NULL;
}

static bool is_number(const char *text)
{
    const char *end = text + strspn(text, "0123456789.");
    return end != text && *end == '\0' && !zoe_file_exists(text);
}

/* The picture may be given as an operand. */
static int take_operand(zoe_request *request)
{
    const zoe_options *found = &request->found;
    if (found->operands == 0)
        return ZOE_EXIT_DONE;
    for (size_t i = 0; i < found->operands; i++)
        if (is_number(found->operand[i]) && zoe_request_gave(request, "guide-scale"))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "%s: a number that belongs to no option; two guidance scales are "
                              "written as one word: --guide-scale %g,%s",
                              found->operand[i], request->job.guide_low, found->operand[i]);
    const bool twice = zoe_request_gave(request, "image");
    if (twice || found->operands > 1)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: one argument too many, the picture is %s; a prompt with blanks "
                          "needs quotes",
                          found->operand[twice ? 0 : 1],
                          twice ? request->job.image : found->operand[0]);
    request->job.image = found->operand[0];
    return ZOE_EXIT_DONE;
}

/* ---- what can be told without a file ---- */

static int check_paths(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    const struct {
        const char *option, *path;
    } paths[] = {
        {"--model", p->model},
        {"--high-noise", p->high_noise},
        {"--low-noise", p->low_noise},
        {"--transformer", p->transformer},
        {"--vae", p->vae},
        {"--text-encoder", p->text_encoder},
        {"--tokenizer", p->tokenizer},
        {"--clip", p->clip},
        {"--image", p->image},
        {"--last-image", p->last_image},
        {"--frames-out", p->frames_out},
        {"--latents-out", p->latents_out},
        {"--checkpoint", p->checkpoint},
        {"--report", p->report},
        {"--trace", p->trace},
        {"--preview", p->preview},
        {"--preview-factors", p->preview_factors},
        {"--config", request->config},
        {"--resume", request->resume},
        {"--from", request->from},
        {"--log", request->log},
        {"--out", p->out}, /* the last: it alone may be a stream */
    };
    enum { PATHS = sizeof paths / sizeof paths[0] };
    for (size_t i = 0; i < PATHS; i++) {
        if (paths[i].path && !*paths[i].path)
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s: the path is empty",
                              paths[i].option);
        if (paths[i].path && strcmp(paths[i].path, "-") == 0 && i + 1 < PATHS)
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "%s -: only --out can be a standard stream; something of that name "
                              "is written ./-",
                              paths[i].option);
    }
    return ZOE_EXIT_DONE;
}

static int check_sources(const zoe_request *request)
{
    if (request->resume && request->from)
        return zoe_refuse_line(
            "--resume and --from: a run goes on or is repeated; give one of them");
    if (request->resume && zoe_request_gave(request, "checkpoint"))
        return zoe_refuse_line(
            "--resume and --checkpoint: a run that goes on keeps its state in the folder "
            "of --resume; leave --checkpoint out");
    return ZOE_EXIT_DONE;
}

static int refuse_resume(const zoe_request *request)
{
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                      "--resume %s: no run was kept there; check the name, or begin one by giving "
                      "--model, --image and the rest as well",
                      request->resume);
}

static int check_inputs(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    const bool transformers = p->transformer || (p->high_noise && p->low_noise);
    if (p->transformer && (p->high_noise || p->low_noise))
        return zoe_refuse_line(
            "--transformer and --high-noise or --low-noise: a model has one transformer, "
            "or these two");
    if (p->model || (transformers && p->vae && p->text_encoder && p->tokenizer))
        return ZOE_EXIT_DONE;
    if (request->resume && !request->record)
        return refuse_resume(request);
    return zoe_refuse_line(
        "--model is missing: the folder of the checkpoint; without it all of "
        "--high-noise, --low-noise (or --transformer alone), --vae, --text-encoder and "
        "--tokenizer are wanted");
}

/* ---- what the model says ---- */

/* The line on top of what is already in the request, and the file of --config for what it leaves. */
static bool read_line(zoe_request *request, int argc, char **argv)
{
    const zoe_command *command = &zoe_generate_command;
    return zoe_options_parse(&request->found, request, command->rows, command->n_rows, argc, argv,
                             1, "zoe generate") &&
           zoe_config_apply(&request->file, &request->found, request);
}

/* The word that --task has, NULL if it is not given. */
static const char *task_of(const zoe_request *request)
{
    const zoe_command *command = &zoe_generate_command;
    for (size_t i = 0; i < command->n_rows; i++)
        if (request->found.given[i] && strcmp(command->rows[i].name, "task") == 0)
            return command->rows[i].words[request->task];
    return NULL;
}

static int check_picture(const zoe_job_model *model, zoe_picture_use use, const char *option,
                         const char *path, const char *what)
{
    if (!path && use == ZOE_PICTURE_NEEDED)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s is missing: %s wants the picture that the video %s", option,
                          model->name, what);
    if (path && use == ZOE_PICTURE_NONE)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s %s: %s takes no picture that the video %s; leave it out", option,
                          path, model->name, what);
    return ZOE_EXIT_DONE;
}

static int check_model(const zoe_request *request, const zoe_job_model *model)
{
    const zoe_job_params *p = &request->job;
    const char *task = task_of(request);
    if (task && strcmp(task, model->task) != 0)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--task %s: this model is %s, whose task is %s", task, model->name,
                          model->task);
    int code = check_picture(model, model->image, "--image", p->image, "begins with");
    if (code == ZOE_EXIT_DONE)
        code = check_picture(model, model->last_image, "--last-image", p->last_image, "ends with");
    if (code == ZOE_EXIT_DONE && model->transformers == 1 && zoe_request_gave(request, "boundary"))
        zoe_note("--boundary changes nothing: %s has one transformer for all steps", model->name);
    return code;
}

/* What is not given becomes the model's default: the line is read once more on top of them. The
 * records of earlier runs are complete. A model that cannot be opened is told of when the job opens
 * it, after what is wrong with the line. */
static int suit_model(zoe_request *request, int argc, char **argv)
{
    zoe_context *trial = zoe_context_new(1);
    zoe_job_params suited = request->job;
    zoe_job_model model;
    const zoe_status status =
        trial ? zoe_job_params_suit(trial, &suited, zoe_request_gave(request, "size"), &model)
              : ZOE_NOMEM;
    if (status == ZOE_NOMEM) {
        zoe_context_free(trial);
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    }
    const int dumps =
        request->dump_config && !request->record && status != ZOE_OK
            ? zoe_refuse(ZOE_EXIT_INPUT, zoe_status_name(status), "%s", zoe_context_message(trial))
            : ZOE_EXIT_DONE;
    zoe_context_free(trial);
    if (dumps != ZOE_EXIT_DONE)
        return dumps;
    if (status != ZOE_OK)
        return request->resume && !request->record && !request->job.image ? refuse_resume(request)
                                                                          : ZOE_EXIT_DONE;
    if (!request->record) {
        request->job = suited;
        if (!read_line(request, argc, argv))
            return zoe_refuse_line(request->found.mistake);
    }
    return check_model(request, &model);
}

/* A list of steps has their number in it and is for Euler. Who makes a model for such steps makes it
 * for no guidance, so that is meant unless something else is said, or noted in the record that the list
 * comes from. */
static int take_step_list(zoe_request *request)
{
    zoe_job_params *p = &request->job;
    const bool noted = request->record && zoe_record_params(request->record)->step_list_count > 0;
    const size_t n = p->step_list_count;
    if (n == 0)
        return ZOE_EXIT_DONE;
    if (zoe_request_gave(request, "steps") && p->steps != n)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--steps %zu: the step list has %zu; leave --steps out, or the list "
                          "(--step-list none)",
                          p->steps, n);
    if (zoe_request_gave(request, "solver") && request->solver != ZOE_SOLVER_EULER)
        return zoe_refuse_line(
            "--solver: a step list goes with euler alone; leave --solver out, or the "
            "list (--step-list none)");
    p->steps = n;
    request->solver = ZOE_SOLVER_EULER;
    if (noted || zoe_request_gave(request, "guide-scale"))
        return ZOE_EXIT_DONE;
    p->guide_low = p->guide_high = 1.0;
    zoe_note("guidance is off, as it is meant with a step list; --guide-scale turns it on");
    return ZOE_EXIT_DONE;
}

/* Experts change by the noise level or by the number of the step. */
static int choose_boundary(zoe_request *request)
{
    const bool by_level = zoe_request_gave(request, "boundary");
    if (by_level && zoe_request_gave(request, "boundary-step"))
        return zoe_refuse_line(
            "--boundary and --boundary-step: experts change by the noise level or by the "
            "number of the step; give one of them");
    if (by_level) /* and a record may have said otherwise */
        request->job.boundary_step = ZOE_NO_BOUNDARY_STEP;
    return ZOE_EXIT_DONE;
}

static int choose_output(zoe_request *request)
{
    zoe_job_params *p = &request->job;
    if (request->no_output || request->dump_config) /* the run that comes of it chooses */
        return ZOE_EXIT_DONE;
    if (!p->out && !p->frames_out && !p->latents_out) {
        if (!request->dry_run && zoe_file_exists(default_out))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "no output is named, and %s, which would be taken, is there already: "
                              "give --out, --frames-out or --latents-out",
                              default_out);
        p->out = default_out;
    }
    const bool noted = request->resume && request->record && !zoe_request_gave(request, "out");
    if (noted && p->out && strcmp(zoe_path_name(p->out), default_out) == 0 && !request->dry_run &&
        zoe_file_exists(p->out))
        return zoe_refuse(
            ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
            "%s, which the run took because no output was named, is there already: give "
            "--out",
            p->out);
    if (p->out && strcmp(p->out, "-") == 0 && !request->dry_run && isatty(STDOUT_FILENO))
        return zoe_refuse_line(
            zoe_comm_launched() == 1
                ? "--out -: standard output is a terminal; send it to a file or a program"
                : "--out -: standard output is a terminal, as the mpirun of Open MPI gives "
                  "to ranks wherever its own goes; name a file");
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

/* The log must not be what the run reads or writes: nothing has been written to it yet. */
static int check_log(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    const char *const others[] = {p->image,
                                  p->out,
                                  p->latents_out,
                                  p->preview,
                                  p->last_image,
                                  p->preview_factors,
                                  p->report,
                                  p->trace,
                                  request->from,
                                  p->tokenizer,
                                  request->found.operand[0],
                                  request->config};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (zoe_log_is_file(others[i])) {
            zoe_log_close(true);
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "--log %s: this is also %s of the run; two names are wanted",
                              request->log, others[i]);
        }
    for (size_t i = 0; i < p->lora_count; i++)
        if (zoe_log_is_file(p->loras[i].path)) {
            zoe_log_close(true);
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "--log %s: this is also a LoRA of the run; two names are wanted",
                              request->log);
        }
    return ZOE_EXIT_DONE;
}

/* No output must replace the file of settings. */
static int check_config(const zoe_request *request)
{
    const zoe_job_params *p = &request->job;
    const char *const outputs[] = {p->out, p->latents_out, p->preview, p->report, p->trace};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        if (zoe_places_meet(outputs[i], request->config))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "--config %s: the output %s is the same file; two names are wanted",
                              request->config, outputs[i]);
    return ZOE_EXIT_DONE;
}

/* ---- all of it ---- */

void zoe_request_free(zoe_request *request)
{
    zoe_record_free(request->record);
    zoe_config_free(&request->file);
    zoe_free(request->image);
    zoe_free(request->last_image);
    free(request->mended[0]);
    free(request->mended[1]);
    for (size_t i = 0; i < ZOE_JOB_LORAS; i++)
        free(request->lora_path[i]);
    zoe_log_close(false);
}

/* Mistakes of the line itself should be JSON as well, wherever the option stands. */
static bool asks_for_json(int argc, char **argv)
{
    bool json = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--progress") == 0 && i + 1 < argc)
            json = strcmp(argv[i + 1], "json") == 0;
        else if (strncmp(argv[i], "--progress=", 11) == 0)
            json = strcmp(argv[i] + 11, "json") == 0;
    }
    return json;
}

/* The file of --config, and the request once more with it. */
static int read_config(zoe_request *request, int argc, char **argv)
{
    const int code = zoe_config_read(&request->file, request->config);
    if (code != ZOE_EXIT_DONE)
        return code;
    if (!read_line(request, argc, argv))
        return zoe_refuse_line(request->found.mistake);
    if (request->progress == ZOE_PROGRESS_JSON && !zoe_message_is_json())
        zoe_message_use_json();
    return check_paths(request);
}

int zoe_request_parse(zoe_request *request, int argc, char **argv)
{
    *request = (zoe_request){0};
    zoe_job_params_init(&request->job);
    const bool read = read_line(request, argc, argv);
    if (read ? request->progress == ZOE_PROGRESS_JSON && !request->help : asks_for_json(argc, argv))
        zoe_message_use_json();
    if (!read)
        return zoe_refuse_line(request->found.mistake);
    if (request->help)
        return ZOE_EXIT_DONE;
    int code = check_paths(request);
    if (code == ZOE_EXIT_DONE && request->config)
        code = read_config(request, argc, argv);
    if (code == ZOE_EXIT_DONE && request->log) {
        code = zoe_log_open(request->log);
        if (code == ZOE_EXIT_DONE)
            code = check_log(request);
        if (zoe_message_rank() == 0)
            zoe_log_command(argc, argv);
    }
    return code;
}

int zoe_request_complete(zoe_context *ctx, zoe_request *request, int argc, char **argv)
{
    const zoe_command *command = &zoe_generate_command;
    int code = check_sources(request);
    if (code == ZOE_EXIT_DONE && (request->resume || request->from)) {
        code = zoe_request_recall(ctx, request);
        if (code == ZOE_EXIT_DONE && !read_line(request, argc, argv))
            code = zoe_refuse_line(request->found.mistake);
    }
    if (code == ZOE_EXIT_DONE)
        code = zoe_request_take_loras(request);
    if (code == ZOE_EXIT_DONE)
        code = take_operand(request);
    if (code == ZOE_EXIT_DONE)
        code = check_paths(request);
    if (code == ZOE_EXIT_DONE)
        code = check_inputs(request);
    if (code == ZOE_EXIT_DONE)
        code = suit_model(request, argc, argv);
    if (code == ZOE_EXIT_DONE)
        code = take_step_list(request);
    if (code == ZOE_EXIT_DONE)
        code = choose_boundary(request);
    if (code == ZOE_EXIT_DONE)
        code = choose_output(request);
    if (code == ZOE_EXIT_DONE)
        code = check_config(request);
    if (code == ZOE_EXIT_DONE)
        code = check_log(request);
    if (code == ZOE_EXIT_DONE)
        code = mend_prompts(request);
    request->job.solver = (zoe_solver_kind)request->solver;
    request->job.bf16 = request->dtype == 1;
    request->job.int8 = request->compute == 1;
    request->job.ring_steps = request->ring_form == 1;
    for (size_t i = 0; i < command->n_rows && code == ZOE_EXIT_DONE; i++)
        if (request->found.given[i] && command->rows[i].type == ZOE_OPTION_MUTE)
            zoe_note("--%s changes nothing: %s", command->rows[i].name, command->rows[i].help);
    if (code == ZOE_EXIT_DONE && *request->file.idle)
        zoe_note("%s: passed over, as nothing here depends on it: %s", request->config,
                 request->file.idle);
    return code;
}
