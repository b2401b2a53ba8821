/* What the shell scripts of the command line's tests cannot do themselves.
 *
 *     cli_tool json FILE                    every line is a JSON object with "event"
 *     cli_tool events FILE [DONE]           the lines are the events of a run as the manual page has them; with DONE
 *                                           any word, also to its last one
 *     cli_tool get FILE EVENT KEY           the value of KEY in the last such event
 *     cli_tool value FILE KEY ...           what stands in the one JSON object of FILE at these keys and indices
 *     cli_tool flip FILE N                  flips the lowest bit of byte N, counted from the end if negative
 *     cli_tool poison FILE TENSOR           the first value of a safetensors tensor becomes NaN
 *     cli_tool spoil_vae IN OUT TENSOR X    a VAE as safetensors; the first value of an f32 tensor becomes X
 *     cli_tool markup FILE                  it is well-formed XML that refers to nothing outside
 *     cli_tool picture FILE W H             a PPM with a gradient
 *     cli_tool video FILE W H N             a video of N frames
 *     cli_tool probe FILE                   "W H FRAMES" of a video
 *     cli_tool rate FILE                    its frames a second, "N/D"
 *     cli_tool signal NAME N TEXT COMMAND   runs COMMAND; when its standard error has TEXT, sends the signal N times;
 *                                           exits like COMMAND, with 128 + n for a signal, 99 if TEXT never came
 *     cli_tool memory COMMAND               runs COMMAND, then prints the most memory that it held, in bytes
 *     cli_tool reads COMMAND                the same, and the bytes that came from the disk for it
 *     cli_tool terminal COLUMNS COMMAND     runs COMMAND on a terminal of its own; copies what it writes
 */
#define _XOPEN_SOURCE 700 /* pseudoterminals */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <libavformat/avformat.h>

#include "base/base.h"
#include "base/file.h"
#include "events.h"
#include "markup.h"
#include "media/media.h"
#include "store/store.h"

static int fail(const char *what, const char *detail)
{
    fprintf(stderr, "cli_tool: %s: %s\n", what, detail);
    return 1;
}

/* ---- JSON lines ---- */

/* Calls see for the object of each line; stops at the first line that is none. */
static int each_event(const char *path, void (*see)(const json_t *object, void *user), void *user)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, count = 0;
    int code = 0;
    if (!file)
        return fail(path, strerror(errno));
    while (code == 0 && getline(&line, &room, file) >= 0) {
        json_error_t error;
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_string(json_object_get(object, "event")))
            code = fail("no JSON event", line);
        else
            see(object, user);
        json_decref(object);
        count++;
    }
    free(line);
    fclose(file);
    return code == 0 && count == 0 ? fail(path, "no lines") : code;
}

static void see_nothing(const json_t *object, void *user)
{
    (void)object;
    (void)user;
}

static int check_events(const char *path, bool whole)
{
    event_check c = {.phase = -1};
    const int code = each_event(path, see_event, &c);
    if (code == 0 && c.fault)
        return fail(path, c.fault);
    if (code == 0 && whole && !c.ended)
        return fail(path, "the last event is missing");
    return code;
}

typedef struct wanted {
    const char *event, *key;
    char *value;
} wanted;

static void see_wanted(const json_t *object, void *user)
{
    wanted *w = user;
    if (strcmp(json_string_value(json_object_get(object, "event")), w->event) != 0)
        return;
    const json_t *value = json_object_get(object, w->key);
    free(w->value);
    w->value = NULL;
    if (json_is_string(value))
        w->value = strdup(json_string_value(value));
    else if (value)
        w->value = json_dumps(value, JSON_ENCODE_ANY);
}

static int get(const char *path, const char *event, const char *key)
{
    wanted w = {event, key, NULL};
    int code = each_event(path, see_wanted, &w);
    if (code == 0 && !w.value)
        code = fail(key, "not there");
    else if (code == 0)
        puts(w.value);
    free(w.value);
    return code;
}

static int value(const char *path, int keys, char **key)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    const json_t *at = root;
    if (!root)
        return fail(path, error.text);
    for (int i = 0; i < keys && at; i++)
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(key[i], NULL, 10))
                               : json_object_get(at, key[i]);
    char *text =
        json_is_string(at) ? strdup(json_string_value(at)) : json_dumps(at, JSON_ENCODE_ANY);
    const int code = text ? 0 : fail(path, "not there");
    if (text)
        puts(text);
    free(text);
    json_decref(root);
    return code;
}

/* ---- files ---- */

static int flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, at, at < 0 ? SEEK_END : SEEK_SET) != 0)
        return fail(path, strerror(errno));
    const int byte = fgetc(file);
    if (byte == EOF || fseek(file, -1, SEEK_CUR) != 0 || fputc(byte ^ 1, file) == EOF ||
        fclose(file) != 0)
        return fail(path, "cannot flip");
    return 0;
}

static int poison_at(FILE *file, const json_t *header, uint64_t header_bytes, const char *tensor)
{
    const json_t *entry = json_object_get(header, tensor);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype)
        return fail(tensor, "not there");
    const unsigned char nan[4] = {0, 0, 0xc0, 0x7f}; /* f32; its upper half is a bf16 */
    const bool wide = strcmp(dtype, "F32") == 0;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const long at = (long)(8 + header_bytes) + (long)json_integer_value(json_array_get(offsets, 0));
    if (fseek(file, at, SEEK_SET) != 0 || fwrite(wide ? nan : nan + 2, wide ? 4 : 2, 1, file) != 1)
        return fail(tensor, "cannot write");
    return 0;
}

static int poison(const char *path, const char *tensor)
{
    unsigned char size[8];
    uint64_t bytes = 0;
    int code = 1;
    FILE *file = fopen(path, "r+b");
    if (!file || fread(size, 1, 8, file) != 8)
        return fail(path, "cannot read");
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | size[i];
    char *text = bytes < 1 << 24 ? malloc(bytes) : NULL;
    json_t *header = NULL;
    if (text && fread(text, 1, bytes, file) == bytes)
        header = json_loadb(text, bytes, 0, NULL);
    if (header)
        code = poison_at(file, header, bytes, tensor);
    json_decref(header);
    free(text);
    return fclose(file) == 0 ? code : fail(path, "cannot write");
}

static int spoil_vae(const char *in, const char *out, const char *name, const char *value)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_store *store = NULL;
    zoe_status status = ctx ? zoe_store_open(ctx, &store, in, ZOE_NAMES_WAN_VAE) : ZOE_NOMEM;
    const size_t n = status == ZOE_OK ? zoe_store_count(store) : 0;
    zoe_named_tensor *tensors = calloc(n + 1, sizeof *tensors);
    float *spoilt = NULL;
    for (size_t i = 0; i < n && tensors; i++) {
        tensors[i].name = zoe_store_name(store, i);
        tensors[i].tensor = zoe_store_tensor(store, i);
        if (strcmp(tensors[i].name, name) != 0 || tensors[i].tensor.dtype != ZOE_F32)
            continue;
        const size_t bytes = zoe_tensor_count(tensors[i].tensor) * sizeof *spoilt;
        spoilt = malloc(bytes);
        if (!spoilt)
            break;
        memcpy(spoilt, tensors[i].tensor.data, bytes);
        spoilt[0] = strtof(value, NULL);
        tensors[i].tensor.data = spoilt;
    }
    if (status == ZOE_OK && spoilt)
        status = zoe_safetensors_write(ctx, out, tensors, n, NULL, 0);
    const int code = status == ZOE_OK && spoilt ? 0 : fail(in, "cannot be spoilt");
    free(spoilt);
    free(tensors);
    zoe_store_close(store);
    zoe_context_free(ctx);
    return code;
}

static unsigned char gradient(size_t x, size_t y, size_t channel, size_t frame)
{
    return (unsigned char)((x * (channel + 1) + y * (3 - channel) + 5 * frame) & 0xff);
}

static int picture(const char *path, size_t width, size_t height)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return fail(path, strerror(errno));
    fprintf(file, "P6\n%zu %zu\n255\n", width, height);
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t c = 0; c < 3; c++)
                fputc(gradient(x, y, c, 0), file);
    return fclose(file) == 0 ? 0 : fail(path, strerror(errno));
}

static int video(const char *path, size_t width, size_t height, size_t frames)
{
    const zoe_video_options options = {
        .width = width, .height = height, .fps_num = 16, .fps_den = 1};
    zoe_context *ctx = zoe_context_new(1);
    unsigned char *rgb = malloc(3 * width * height);
    zoe_video *v;
    if (!ctx || !rgb)
        return fail(path, "memory ran out");
    zoe_status status = zoe_video_open(ctx, &v, path, &options);
    for (size_t f = 0; f < frames && status == ZOE_OK; f++) {
        for (size_t i = 0; i < 3 * width * height; i++)
            rgb[i] = gradient(i / 3 % width, i / 3 / width, i % 3, f);
        status = zoe_video_frame(ctx, v, rgb);
    }
    if (status == ZOE_OK)
        status = zoe_video_close(ctx, v);
    const int code = status == ZOE_OK ? 0 : fail(path, zoe_context_message(ctx));
    free(rgb);
    zoe_context_free(ctx);
    return code;
}

static int probe(const char *path)
{
    AVFormatContext *format = NULL;
    AVPacket *packet = av_packet_alloc();
    size_t frames = 0;
    if (!packet || avformat_open_input(&format, path, NULL, NULL) < 0 ||
        avformat_find_stream_info(format, NULL) < 0 || format->nb_streams != 1)
        return fail(path, "no video");
    while (av_read_frame(format, packet) >= 0) {
        frames++;
        av_packet_unref(packet);
    }
    const AVCodecParameters *codec = format->streams[0]->codecpar;
    printf("%d %d %zu\n", codec->width, codec->height, frames);
    av_packet_free(&packet);
    avformat_close_input(&format);
    return 0;
}

static int rate(const char *path)
{
    AVFormatContext *format = NULL;
    if (avformat_open_input(&format, path, NULL, NULL) < 0 ||
        avformat_find_stream_info(format, NULL) < 0 || format->nb_streams != 1)
        return fail(path, "no video");
    const AVRational r = format->streams[0]->avg_frame_rate;
    printf("%d/%d\n", r.num, r.den);
    avformat_close_input(&format);
    return 0;
}

/* ---- signals ---- */

static int signal_number(const char *name)
{
    return strcmp(name, "INT") == 0    ? SIGINT
           : strcmp(name, "TERM") == 0 ? SIGTERM
           : strcmp(name, "HUP") == 0  ? SIGHUP
           : strcmp(name, "KILL") == 0 ? SIGKILL
                                       : 0;
}

/* Copies the child's standard error to ours and sends the signals when `text` came. Did it? */
static bool watch(FILE *from, const char *text, pid_t child, int number, int times)
{
    char *line = NULL;
    size_t room = 0;
    bool sent = false;
    while (getline(&line, &room, from) >= 0) {
        fputs(line, stderr);
        if (sent || !strstr(line, text))
            continue;
        for (int i = 0; i < times; i++) {
            const struct timespec pause = {0, 2000000};
            if (i > 0)
                nanosleep(&pause, NULL);
            kill(child, number);
        }
        sent = true;
    }
    free(line);
    return sent;
}

static int run_and_signal(const char *name, int times, const char *text, char **command)
{
    int ends[2], state;
    const int number = signal_number(name);
    if (number == 0 || pipe(ends) != 0)
        return fail(name, "no such signal");
    const pid_t child = fork();
    if (child == 0) {
        signal(number, SIG_DFL); /* shells make background jobs ignore SIGINT */
        if (nice(10) == -1)      /* on a busy machine the signal must not come when all is over */
            errno = 0;
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(command[0], command);
        _exit(127);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    const bool sent = from && child > 0 && watch(from, text, child, number, times);
    if (from)
        fclose(from);
    if (child < 0 || waitpid(child, &state, 0) != child)
        return fail(command[0], strerror(errno));
    if (!sent)
        return fail(text, "was never said"), 99;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/* ---- a terminal ---- */

static void run_on_terminal(const char *name, size_t columns, char **command)
{
    const struct winsize size = {.ws_row = 25, .ws_col = (unsigned short)columns};
    setsid();
    const int fd = open(name, O_RDWR);
    if (fd < 0 || ioctl(fd, TIOCSWINSZ, &size) != 0)
        _exit(126);
    for (int standard = 0; standard <= 2; standard++)
        dup2(fd, standard);
    execvp(command[0], command);
    _exit(127);
}

static int terminal(size_t columns, char **command)
{
    char buffer[4096], name[256];
    int state;
    const int fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd < 0 || grantpt(fd) != 0 || unlockpt(fd) != 0)
        return fail("terminal", strerror(errno));
    snprintf(name, sizeof name, "%s", ptsname(fd));
    const int held =
        open(name, O_RDWR | O_NOCTTY); /* else the child could come too late for the first read */
    const pid_t child = fork();
    if (child == 0)
        run_on_terminal(name, columns, command);
    close(held);
    for (;;) { /* ends with EIO when the child is gone */
        const ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            break;
        if (n > 0)
            fwrite(buffer, 1, (size_t)n, stdout);
    }
    close(fd);
    if (child < 0 || waitpid(child, &state, 0) != child)
        return fail(command[0], strerror(errno));
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static int memory(char **command, bool reads)
{
    struct rusage usage;
    int state;
    const pid_t child = fork();
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &state, 0) != child || getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return fail(command[0], strerror(errno));
    printf("%lld", (long long)usage.ru_maxrss * 1024);
    if (reads)
        printf(" %lld", (long long)usage.ru_inblock * 512);
    printf("\n");
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static int markup(const char *path)
{
    zoe_context *ctx = zoe_context_new(1);
    const char *fault;
    char *text = NULL;
    size_t size;
    int code = 0;
    if (!ctx || zoe_file_read(ctx, &text, &size, path, 1 << 26) != ZOE_OK)
        code = fail(path, ctx ? zoe_context_message(ctx) : "no memory");
    else if (strlen(text) != size || !markup_check(text, &fault))
        code = fail(path, strlen(text) == size ? fault : "a zero byte");
    else if (markup_refers(text, &fault))
        code = fail("it refers to something outside", fault);
    zoe_free(text);
    zoe_context_free(ctx);
    return code;
}

static size_t number_of(const char *text)
{
    return (size_t)strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "json") == 0 && argc == 3)
        return each_event(argv[2], see_nothing, NULL);
    if (strcmp(what, "events") == 0 && (argc == 3 || argc == 4))
        return check_events(argv[2], argc == 4);
    if (strcmp(what, "value") == 0 && argc > 3)
        return value(argv[2], argc - 3, argv + 3);
    if (strcmp(what, "get") == 0 && argc == 5)
        return get(argv[2], argv[3], argv[4]);
    if (strcmp(what, "flip") == 0 && argc == 4)
        return flip(argv[2], atol(argv[3]));
    if (strcmp(what, "poison") == 0 && argc == 4)
        return poison(argv[2], argv[3]);
    if (strcmp(what, "spoil_vae") == 0 && argc == 6)
        return spoil_vae(argv[2], argv[3], argv[4], argv[5]);
    if (strcmp(what, "markup") == 0 && argc == 3)
        return markup(argv[2]);
    if (strcmp(what, "picture") == 0 && argc == 5)
        return picture(argv[2], number_of(argv[3]), number_of(argv[4]));
    if (strcmp(what, "video") == 0 && argc == 6)
        return video(argv[2], number_of(argv[3]), number_of(argv[4]), number_of(argv[5]));
    if (strcmp(what, "probe") == 0 && argc == 3)
        return probe(argv[2]);
    if (strcmp(what, "rate") == 0 && argc == 3)
        return rate(argv[2]);
    if (strcmp(what, "signal") == 0 && argc > 5)
        return run_and_signal(argv[2], atoi(argv[3]), argv[4], argv + 5);
    if (strcmp(what, "terminal") == 0 && argc > 3)
        return terminal(number_of(argv[2]), argv + 3);
    if (strcmp(what, "memory") == 0 || strcmp(what, "reads") == 0)
        return memory(argv + 2, strcmp(what, "reads") == 0);
    return fail("usage", "see the head of tool.c");
}
