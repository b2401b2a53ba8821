/* Races on purpose: every task adds to one number. If the thread sanitizer does not see that here,
 * its silence in the other tests means nothing. */
#include <stdio.h>

#include "base/base.h"

typedef struct sum {
    size_t value;
} sum;

static void add(void *arg, size_t i, size_t worker)
{
    sum *s = arg;
    (void)worker;
    s->value += i;
}

int main(void)
{
    sum s = {0};
    zoe_context *ctx = zoe_context_new(2);
    if (!ctx)
        return 1;
    for (int round = 0; round < 100; round++)
        zoe_parallel_for(ctx, 1000, add, &s);
    printf("%zu\n", s.value);
    zoe_context_free(ctx);
    return 0;
}
