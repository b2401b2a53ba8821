/* --lora FILE[:STRENGTH] or FILE[:high=A,low=B]. */
#include "lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"

/* A number that ends at `end`. */
static bool read_strength(double *value, const char *text, const char *end)
{
    char copy[40];
    const size_t n = (size_t)(end - text);
    if (n == 0 || n >= sizeof copy || strspn(text, "0123456789+-.eE") < n)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    char *stop;
    *value = strtod(copy, &stop);
    return *stop == '\0' && isfinite(*value);
}

/* "0.8", "high=1,low=0.8", or one of the two: the other one is 0 then. */
static bool read_strengths(zoe_job_lora *lora, const char *text)
{
    static const char *const names[] = {"high=", "low="};
    double *const values[] = {&lora->high, &lora->low};
    bool given[2] = {false, false};
    if (read_strength(&lora->high, text, text + strlen(text))) {
        lora->low = lora->high;
        return true;
    }
    lora->high = lora->low = 0.0;
    for (bool more = true; more;) {
        const char *end = text + strcspn(text, ",");
        size_t k = 0;
        while (k < 2 && strncmp(text, names[k], strlen(names[k])) != 0)
            k++;
        if (k == 2 || given[k] || !read_strength(values[k], text + strlen(names[k]), end))
            return false;
        given[k] = true;
        more = *end != '\0';
        text = end + more;
    }
    return true;
}

static int read_lora(zoe_request *request, size_t i)
{
    const char *text = request->lora[i], *colon = strrchr(text, ':');
    zoe_job_lora *lora = &request->job.loras[i];
    *lora = (zoe_job_lora){.path = text, .high = NAN, .low = NAN};
    if (!colon || colon == text || zoe_file_exists(text))
        return ZOE_EXIT_DONE;
    const size_t n = (size_t)(colon - text);
    free(request->lora_path[i]);
    char *path = request->lora_path[i] = malloc(n + 1);
    if (!path)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    memcpy(path, text, n);
    path[n] = '\0';
    if (read_strengths(lora, colon + 1)) {
        lora->path = path;
        return ZOE_EXIT_DONE;
    }
    if (zoe_file_exists(path))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--lora %s: after the file's name, :0.8 is wanted, or :high=1.0,low=0.8",
                          text);
    *lora = (zoe_job_lora){.path = text, .high = NAN, .low = NAN};
    return ZOE_EXIT_DONE;
}

int zoe_request_take_loras(zoe_request *request)
{
    if (!zoe_request_gave(request, "lora"))
        return ZOE_EXIT_DONE;
    int code = ZOE_EXIT_DONE;
    request->job.lora_count = request->loras;
    for (size_t i = 0; i < request->loras && code == ZOE_EXIT_DONE; i++) {
        if (!*request->lora[i])
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "--lora: the path is empty");
        code = read_lora(request, i);
    }
    return code;
}

int zoe_request_recall_loras(zoe_request *request)
{
    zoe_job_params *p = &request->job;
    if (zoe_request_gave(request, "lora"))
        return ZOE_EXIT_DONE;
    for (size_t i = 0; i < p->lora_count; i++)
        if (!zoe_file_exists(p->loras[i].path))
            return zoe_refuse(
                ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                "--lora is missing: %s was made with %s (high=%g,low=%g), which is not "
                "in the current folder; say with --lora where it is",
                request->from, p->loras[i].path, p->loras[i].high, p->loras[i].low);
    return ZOE_EXIT_DONE;
}
