/* Defines the operators when torch loads this library (torch.ops.load_library). */
#include <string.h>

#include "call.h"

static const zoe_torch_op *const *const tables[] = {zoe_torch_rms, zoe_torch_layer,
                                                    zoe_torch_attention, zoe_torch_rest};

static void check(int32_t error, const char *what)
{
    aoti_torch_check(error == 0, __func__, "zoetrope", 0, what);
}

/* The operator's name with its overload: the schema up to the bracket. */
static void name_of(char *name, size_t size, const char *schema)
{
    size_t length = strcspn(schema, "(");
    length = length < size ? length : size - 1;
    memcpy(name, schema, length);
    name[length] = '\0';
}

/* Torch keeps what it is given here until the process ends, so the two libraries are never deleted. */
__attribute__((constructor)) static void define_operators(void)
{
    zoe_torch_library definitions = NULL, kernels = NULL;
    zoe_call_setup();
    check(aoti_torch_library_init_def("zoetrope", "zoetrope", 0, &definitions),
          "zoetrope: the operators are there already");
    check(aoti_torch_library_init_impl("zoetrope", "CPU", "zoetrope", 0, &kernels),
          "zoetrope: torch takes no kernels");
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const zoe_torch_op *const *op = tables[t]; *op; op++) {
            char name[64];
            name_of(name, sizeof name, (*op)->schema);
            check(aoti_torch_library_def(definitions, (*op)->schema), (*op)->schema);
            check(aoti_torch_library_impl(kernels, name, (*op)->kernel), name);
        }
}
