/* Files: maps, texts, and outputs that appear only when complete. */
#define _GNU_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/file.h"

typedef struct place {
    zoe_context *ctx;
    char folder[64], file[128];
} place;

static int set_up(void **state)
{
    static place p;
    p = (place){.ctx = zoe_context_new(1)};
    const char *tmp = getenv("TMPDIR");
    if (!tmp || strlen(tmp) > 32)
        tmp = "/tmp";
    snprintf(p.folder, sizeof p.folder, "%s/zoe-file-XXXXXX", tmp);
    if (!p.ctx || !mkdtemp(p.folder))
        return -1;
    snprintf(p.file, sizeof p.file, "%s/a file", p.folder);
    *state = &p;
    return 0;
}

static int tear_down(void **state)
{
    place *p = *state;
    unlink(p->file);
    const int left = rmdir(p->folder); /* fails if a test left anything else behind */
    zoe_context_free(p->ctx);
    return left;
}

static size_t entries(const char *folder)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void write_file(place *p, const void *data, size_t bytes)
{
    zoe_output out;
    assert_int_equal(zoe_output_open(p->ctx, &out, p->file), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, data, bytes), ZOE_OK);
    assert_int_equal(zoe_output_commit(p->ctx, &out), ZOE_OK);
    zoe_output_abort(&out); /* nothing after a commit */
}

static void output_appears_on_commit(void **state)
{
    place *p = *state;
    zoe_output out;
    assert_int_equal(zoe_output_open(p->ctx, &out, p->file), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, "one ", 4), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, NULL, 0), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, "two", 3), ZOE_OK);
    assert_false(zoe_file_exists(p->file));
    assert_int_equal(entries(p->folder), 1);
    assert_int_equal(zoe_output_commit(p->ctx, &out), ZOE_OK);
    assert_true(zoe_file_exists(p->file));
    assert_int_equal(entries(p->folder), 1);

    char *text;
    size_t size;
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 7), ZOE_OK);
    assert_int_equal(size, 7);
    assert_string_equal(text, "one two");
    zoe_free(text);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 6), ZOE_FORMAT);
    assert_null(text);
    assert_non_null(strstr(zoe_context_message(p->ctx), p->file));
}

static void abort_keeps_the_old_file(void **state)
{
    place *p = *state;
    write_file(p, "old", 3);
    zoe_output out;
    assert_int_equal(zoe_output_open(p->ctx, &out, p->file), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, "new", 3), ZOE_OK);
    zoe_output_abort(&out);
    zoe_output_abort(&out);
    assert_int_equal(entries(p->folder), 1);
    char *text;
    size_t size;
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 100), ZOE_OK);
    assert_string_equal(text, "old");
    zoe_free(text);

    zoe_output none = {0};
    zoe_output_abort(&none);
}

static void commit_onto_a_folder_fails_cleanly(void **state)
{
    place *p = *state;
    char inside[160];
    assert_int_equal(zoe_folder_make(p->ctx, p->file), ZOE_OK);
    assert_int_equal(zoe_folder_make(p->ctx, p->file), ZOE_OK);
    assert_true(zoe_folder_exists(p->file));
    assert_false(zoe_file_exists(p->file));
    snprintf(inside, sizeof inside, "%s/no/folder", p->folder);
    assert_int_equal(zoe_folder_make(p->ctx, inside), ZOE_IO);

    zoe_output out;
    zoe_context_clear(p->ctx);
    assert_int_equal(rmdir(p->file), 0);
    assert_int_equal(zoe_output_open(p->ctx, &out, p->file), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, "x", 1), ZOE_OK);
    assert_int_equal(zoe_folder_make(p->ctx, p->file), ZOE_OK); /* meanwhile */
    assert_int_equal(zoe_output_commit(p->ctx, &out), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), "cannot rename"));
    assert_int_equal(entries(p->folder), 1);
    assert_int_equal(rmdir(p->file), 0);
}

static void probe_leaves_nothing(void **state)
{
    place *p = *state;
    char elsewhere[160];
    assert_int_equal(zoe_output_probe(p->ctx, p->file), ZOE_OK);
    assert_int_equal(entries(p->folder), 0);
    assert_int_equal(zoe_output_probe(p->ctx, p->folder), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), "is a folder"));
    zoe_context_clear(p->ctx);
    snprintf(elsewhere, sizeof elsewhere, "%s/missing/out.mp4", p->folder);
    assert_int_equal(zoe_output_probe(p->ctx, elsewhere), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), "cannot write"));
    assert_int_equal(zoe_output_probe(p->ctx, "/proc/out.mp4"), ZOE_IO);
}

static void odd_files_do_not_hold_up(void **state)
{
    place *p = *state;
    char *text;
    size_t size;
    zoe_map map;
    assert_int_equal(mkfifo(p->file, 0600), 0);
    assert_int_equal(zoe_map_open(p->ctx, &map, p->file), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), "a device or pipe"));
    assert_int_equal(unlink(p->file), 0);
    zoe_context_clear(p->ctx);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, "/dev/zero", 1u << 20), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), "/dev/zero"));
}

/* A pipe that is written to is read, however late its bytes come; one that nobody writes to is refused,
 * not waited for. */
static void pipes_are_read_if_they_are_written_to(void **state)
{
    place *p = *state;
    char *text;
    size_t size;
    int fd;
    assert_int_equal(mkfifo(p->file, 0600), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct timespec late = {0, 300000000};
        const int to = open(p->file, O_WRONLY);
        nanosleep(&late, NULL);
        _exit(write(to, "late", 4) == 4 ? 0 : 1);
    }
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 100), ZOE_OK);
    assert_string_equal(text, "late");
    zoe_free(text);
    assert_int_equal(waitpid(child, NULL, 0), child);

    alarm(60); /* ends the program, if this waits for ever */
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 100), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), "is a pipe to which nobody writes"));
    zoe_context_clear(p->ctx);
    assert_int_equal(zoe_file_open(p->ctx, &fd, p->file, false), ZOE_IO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(zoe_context_message(p->ctx), "a device or pipe"));
    zoe_context_clear(p->ctx);
    char digest[ZOE_DIGEST_TEXT];
    assert_int_equal(zoe_file_digest(p->ctx, digest, p->file), ZOE_IO);
    alarm(0);
    zoe_context_clear(p->ctx);
    zoe_cancel(p->ctx);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 100), ZOE_CANCELLED);
    assert_int_equal(unlink(p->file), 0);
}

/* What a process that was killed left is removed; what one still writes is not. */
static void parts_of_the_living_stay(void **state)
{
    place *p = *state;
    zoe_output out;
    zoe_part_letters_use(p->ctx, "abcdefgh");
    assert_int_equal(zoe_output_open(p->ctx, &out, p->file), ZOE_OK);
    zoe_output_sweep(p->file, "abcdefgh");
    assert_int_equal(entries(p->folder), 1);
    close(out.fd); /* as the end of a process does */
    zoe_output_sweep(p->file, "bbcdefgh");
    assert_int_equal(entries(p->folder), 1);
    zoe_output_sweep(p->file, "abcdefgh");
    assert_int_equal(entries(p->folder), 0);
    out.fd = -1;
    zoe_output_abort(&out);
    zoe_part_letters_use(p->ctx, NULL);
}

static void maps_show_the_file(void **state)
{
    place *p = *state;
    zoe_map map;
    assert_int_equal(zoe_map_open(p->ctx, &map, p->file), ZOE_MISSING);
    assert_null(map.data);
    assert_non_null(strstr(zoe_context_message(p->ctx), p->file));
    assert_int_equal(zoe_map_open(p->ctx, &map, p->folder), ZOE_IO);
    assert_int_equal(zoe_map_open(p->ctx, &map, "/dev/null"), ZOE_IO);

    write_file(p, "", 0);
    assert_int_equal(zoe_map_open(p->ctx, &map, p->file), ZOE_OK);
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    zoe_map_close(&map);

    write_file(p, "abc", 3);
    assert_int_equal(zoe_map_open(p->ctx, &map, p->file), ZOE_OK);
    assert_int_equal(map.size, 3);
    assert_memory_equal(map.data, "abc", 3);
    assert_int_equal(zoe_map_check(p->ctx, &map), ZOE_OK);
    assert_int_equal(truncate(p->file, 1), 0);
    zoe_context_clear(p->ctx);
    assert_int_equal(zoe_map_check(p->ctx, &map), ZOE_FORMAT);
    assert_non_null(strstr(zoe_context_message(p->ctx), "shrank from 3 to 1"));
    zoe_map_close(&map);
    zoe_map_close(&map);
}

static void long_texts_are_read_whole(void **state)
{
    place *p = *state;
    enum { N = 300000 };
    char *data = malloc(N), *text;
    size_t size;
    assert_non_null(data);
    for (size_t i = 0; i < N; i++)
        data[i] = (char)('a' + i % 23);
    write_file(p, data, N);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, N), ZOE_OK);
    assert_int_equal(size, N);
    assert_memory_equal(text, data, N);
    assert_int_equal(text[N], 0);
    zoe_free(text);
    free(data);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->folder, N), ZOE_IO);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, "", N), ZOE_MISSING);
}

static void expect_refused(place *p, const char *path, const char *why)
{
    zoe_output out;
    zoe_context_clear(p->ctx);
    assert_int_equal(zoe_output_probe(p->ctx, path), ZOE_IO);
    assert_non_null(strstr(zoe_context_message(p->ctx), why));
    assert_non_null(strstr(zoe_context_message(p->ctx), path));
    assert_int_equal(zoe_output_open(p->ctx, &out, path), ZOE_IO);
    zoe_output_abort(&out);
}

static void only_files_are_replaced(void **state)
{
    place *p = *state;
    char link[160];
    snprintf(link, sizeof link, "%s/link", p->folder);
    expect_refused(p, "/dev/null", "is a device");

    assert_int_equal(mkfifo(p->file, 0600), 0);
    assert_int_equal(symlink(p->file, link), 0);
    expect_refused(p, p->file, "is a pipe");
    expect_refused(p, link, "is a pipe");
    assert_int_equal(unlink(p->file), 0);

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(strlen(p->file) < sizeof address.sun_path);
    memcpy(address.sun_path, p->file, strlen(p->file) + 1);
    assert_int_equal(bind(s, (const struct sockaddr *)&address, sizeof address), 0);
    expect_refused(p, p->file, "is a socket");
    close(s);
    assert_int_equal(unlink(p->file), 0);

    expect_refused(p, link, "leads nowhere");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("link", link), 0);
    expect_refused(p, link, "leads nowhere");
    assert_int_equal(entries(p->folder), 1);
    unlink(link);
}

static void a_link_stays_and_its_file_is_replaced(void **state)
{
    place *p = *state;
    char link[160], *text;
    struct stat st;
    size_t size;
    write_file(p, "old", 3);
    snprintf(link, sizeof link, "%s/link", p->folder);
    assert_int_equal(symlink("a file", link), 0);
    zoe_output out;
    assert_int_equal(zoe_output_open(p->ctx, &out, link), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &out, "new", 3), ZOE_OK);
    assert_int_equal(zoe_output_commit(p->ctx, &out), ZOE_OK);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 100), ZOE_OK);
    assert_string_equal(text, "new");
    zoe_free(text);
    assert_int_equal(entries(p->folder), 2);
    unlink(link);
}

/* Two outputs of one name do not meet before they are complete; the later commit stays. */
static void parts_have_names_of_their_own(void **state)
{
    place *p = *state;
    zoe_output a, b;
    char *text;
    size_t size;
    assert_int_equal(zoe_output_open(p->ctx, &a, p->file), ZOE_OK);
    assert_int_equal(zoe_output_open(p->ctx, &b, p->file), ZOE_OK);
    assert_string_not_equal(a.part, b.part);
    assert_int_equal(zoe_output_write(p->ctx, &a, "first", 5), ZOE_OK);
    assert_int_equal(zoe_output_write(p->ctx, &b, "second", 6), ZOE_OK);
    assert_int_equal(zoe_output_probe(p->ctx, p->file), ZOE_OK);
    assert_int_equal(entries(p->folder), 2);
    assert_int_equal(zoe_output_commit(p->ctx, &b), ZOE_OK);
    assert_int_equal(zoe_output_commit(p->ctx, &a), ZOE_OK);
    assert_int_equal(zoe_file_read(p->ctx, &text, &size, p->file, 100), ZOE_OK);
    assert_string_equal(text, "first");
    zoe_free(text);
}

/* zoe_outputs_unlink in a process of its own, as it is meant: it ends. True if afterwards nothing
 * more could be opened. */
static bool end_a_child(const place *p)
{
    int state;
    const pid_t child = fork();
    if (child == 0) {
        zoe_output late;
        char *folder;
        zoe_outputs_unlink();
        const bool refused = zoe_output_open(p->ctx, &late, p->file) == ZOE_CANCELLED &&
                             zoe_folder_make_part(p->ctx, &folder, p->folder) == ZOE_CANCELLED;
        _exit(refused ? 0 : 1);
    }
    return child > 0 && waitpid(child, &state, 0) == child && state == 0;
}

/* A handler that ends the process removes what is open and nothing else. */
static void open_parts_can_be_removed_at_once(void **state)
{
    place *p = *state;
    zoe_output out[20]; /* more than are remembered */
    write_file(p, "old", 3);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(zoe_output_open(p->ctx, &out[i], p->file), ZOE_OK);
    zoe_output_abort(&out[3]);
    assert_int_equal(zoe_output_open(p->ctx, &out[3], p->file), ZOE_OK);
    assert_int_equal(entries(p->folder), 21);
    assert_true(end_a_child(p));
    assert_int_equal(entries(p->folder), 1 + 4);
    for (size_t i = 0; i < 20; i++)
        zoe_output_abort(&out[i]);
    assert_true(end_a_child(p));
    assert_int_equal(entries(p->folder), 1);
}

static void folders_can_be_removed_at_once(void **state)
{
    place *p = *state;
    char *part, *kept, made[96], full[96], inside[160];
    snprintf(made, sizeof made, "%s/made", p->folder);
    snprintf(full, sizeof full, "%s/full", p->folder);
    assert_int_equal(mkdir(made, 0777), 0);
    assert_int_equal(mkdir(full, 0777), 0);
    zoe_folder_remember(made, false);
    zoe_folder_remember(full, false);
    assert_int_equal(zoe_folder_make_part(p->ctx, &part, made), ZOE_OK);
    assert_int_equal(zoe_folder_make_part(p->ctx, &kept, full), ZOE_OK);
    zoe_folder_forget(kept);
    for (int i = 0; i < 300; i++) { /* more than one look at the folder gives */
        snprintf(inside, sizeof inside, "%s/a_long_name_of_a_frame_%05d.png", part, i);
        FILE *f = fopen(inside, "w");
        assert_non_null(f);
        fclose(f);
    }
    assert_true(end_a_child(p));
    assert_false(zoe_folder_exists(made));
    assert_true(zoe_folder_exists(kept));
    assert_int_equal(rmdir(kept), 0);
    assert_int_equal(rmdir(full), 0);
    zoe_folder_forget(part);
    zoe_folder_forget(made);
    zoe_folder_forget(full);
    zoe_free(part);
    zoe_free(kept);
}

/* The longest names; characters are not cut in two. */
static void long_names_have_short_parts(void **state)
{
    place *p = *state;
    char path[512];
    for (int letters = 0; letters < 3; letters++) {
        size_t n = (size_t)snprintf(path, sizeof path, "%s/%.*s", p->folder, letters, "xx");
        const size_t begin = strlen(p->folder) + 1;
        while (n - begin + 3 <= 255)
            n += (size_t)snprintf(path + n, sizeof path - n, "猫");
        zoe_output out;
        assert_int_equal(zoe_output_open(p->ctx, &out, path), ZOE_OK);
        const char *name = zoe_path_name(out.part), *dot = strchr(name, '.');
        assert_true(strlen(name) <= 255);
        assert_int_equal((dot - name - letters) % 3, 0);
        assert_int_equal(zoe_output_commit(p->ctx, &out), ZOE_OK);
        assert_int_equal(unlink(path), 0);
        snprintf(path + n, sizeof path - n, "猫");
        expect_refused(p, path, "too long");
    }
}

static void part_folders_are_new(void **state)
{
    place *p = *state;
    char *a, *b;
    assert_int_equal(zoe_folder_make_part(p->ctx, &a, p->folder), ZOE_OK);
    assert_int_equal(zoe_folder_make_part(p->ctx, &b, p->folder), ZOE_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(zoe_path_name(a)[0], '.');
    assert_int_equal(rmdir(a), 0);
    assert_int_equal(rmdir(b), 0);
    zoe_free(a);
    zoe_free(b);
    zoe_context_clear(p->ctx);
    assert_int_equal(zoe_folder_make_part(p->ctx, &a, p->file), ZOE_IO);
    assert_null(a);
    zoe_alloc_fail_at(1);
    assert_int_equal(zoe_folder_make_part(p->ctx, &a, p->folder), ZOE_NOMEM);
    zoe_alloc_fail_at(0);
    assert_null(a);
}

/* Whatever allocation fails, the call says NOMEM and leaves neither memory nor files. */
static void failing_memory_leaves_nothing(void **state)
{
    place *p = *state;
    write_file(p, "abc", 3);
    for (size_t n = 1; n < 4; n++) {
        zoe_output out;
        zoe_map map;
        char *text;
        size_t size;
        zoe_alloc_fail_at(n);
        const zoe_status status = zoe_output_open(p->ctx, &out, p->file);
        zoe_alloc_fail_at(0);
        assert_int_equal(status, n <= 2 ? ZOE_NOMEM : ZOE_OK);
        zoe_output_abort(&out);
        assert_int_equal(entries(p->folder), 1);

        zoe_alloc_fail_at(1);
        const zoe_status mapped = zoe_map_open(p->ctx, &map, p->file);
        const zoe_status read = zoe_file_read(p->ctx, &text, &size, p->file, 9);
        zoe_alloc_fail_at(0);
        assert_int_equal(mapped, ZOE_NOMEM);
        assert_null(map.data);
        assert_int_equal(read, ZOE_NOMEM);
        assert_null(text);
    }
}

static void paths_join(void **state)
{
    place *p = *state;
    char *path;
    assert_int_equal(zoe_path_join(p->ctx, &path, "a/b", "c"), ZOE_OK);
    assert_string_equal(path, "a/b/c");
    assert_string_equal(zoe_path_name(path), "c");
    zoe_free(path);
    assert_int_equal(zoe_path_join(p->ctx, &path, "/", "c"), ZOE_OK);
    assert_string_equal(path, "/c");
    zoe_free(path);
    assert_string_equal(zoe_path_name("name"), "name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(output_appears_on_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abort_keeps_the_old_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commit_onto_a_folder_fails_cleanly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(probe_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_files_are_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_stays_and_its_file_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_have_names_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(open_parts_can_be_removed_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_can_be_removed_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_names_have_short_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(part_folders_are_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(odd_files_do_not_hold_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pipes_are_read_if_they_are_written_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_of_the_living_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(maps_show_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_texts_are_read_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_join, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
