/* Runs a fuzz target on every file of the folders given, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input lies in memory of just its size, so that an address sanitizer sees any reading beyond.
 */
static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return -1;
    long size = -1;
    if (fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    uint8_t *bytes = size >= 0 ? malloc((size_t)size ? (size_t)size : 1) : NULL;
    rewind(f);
    const int bad = !bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size;
    fclose(f);
    if (!bad)
        LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    return bad ? -1 : 0;
}

int main(int argc, char **argv)
{
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            fprintf(stderr, "%s: cannot list\n", argv[i]);
            return 1;
        }
        for (const struct dirent *entry; (entry = readdir(dir));) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (run_file(path) != 0) {
                fprintf(stderr, "%s: cannot read\n", path);
                closedir(dir);
                return 1;
            }
            n++;
        }
        closedir(dir);
    }
    printf("%zu inputs\n", n);
    return n > 0 ? 0 : 1;
}
