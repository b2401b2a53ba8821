/* What the system tells of the machine and of what this process may use of it. What cannot be read
 * is unknown: "" or SIZE_MAX. */
#ifndef ZOE_MACHINE_H
#define ZOE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum { ZOE_CACHES = 8 };

typedef struct zoe_cache {
    unsigned level;
    char kind[16]; /* "Data", "Instruction", "Unified" */
    size_t bytes;
} zoe_cache;

typedef struct zoe_machine {
    char cpu[128], system[256]; /* the cpu's name; kernel and architecture */
    char features[1024];        /* instruction sets of interest that the cpu has */
    char lacks[256];            /* of those that kernels ask for */
    zoe_cache caches[ZOE_CACHES];
    size_t n_caches;
    int online, affinity, quota; /* cpus; 0 unknown, or no quota */
    size_t memory, available, swap_free;
    size_t memory_limit; /* of the control group; SIZE_MAX for none */
    size_t huge_pages, huge_page_bytes;
    char transparent[16]; /* of transparent huge pages: "always", "madvise", "never" */
} zoe_machine;

void zoe_machine_read(zoe_machine *machine);

/* Bytes that this user may still write in the folder; SIZE_MAX unknown. */
size_t zoe_folder_free(const char *path);

#endif
