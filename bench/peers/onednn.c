/* oneDNN: products with bias of f32, bf16, f16 and int8, weights in the layout that it likes best. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "peer.h"

enum { X, W, BIAS, Y, OPERANDS };

static struct {
    dnnl_memory_t memory[OPERANDS];
    dnnl_primitive_t product;
} job;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static bool good(dnnl_status_t status)
{
    return status == dnnl_success;
}

void peer_name(char *text, size_t room)
{
    const dnnl_version_t *v = dnnl_version();
    if (!good(dnnl_engine_create(&engine, dnnl_cpu, 0)) ||
        !good(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)))
        exit(1);
    snprintf(text, room, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

static dnnl_data_type_t type_of(const char *name)
{
    static const struct {
        const char *name;
        dnnl_data_type_t type;
    } types[] = {{"f32", dnnl_f32}, {"bf16", dnnl_bf16}, {"f16", dnnl_f16}, {"i8", dnnl_s8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(name, types[i].name) == 0)
            return types[i].type;
    return dnnl_data_type_undef;
}

/* The descriptor of a product whose weights may lie as the library likes. */
static bool describe(dnnl_primitive_desc_t *desc, const dnnl_dim_t *const dims[OPERANDS],
                     const dnnl_data_type_t types[OPERANDS])
{
#if DNNL_VERSION_MAJOR >= 3
    dnnl_memory_desc_t m[OPERANDS] = {NULL};
    bool fine = true;
    for (size_t i = 0; i < OPERANDS; i++)
        fine = fine && good(dnnl_memory_desc_create_with_tag(
                           &m[i], 2, dims[i], types[i], i == W ? dnnl_format_tag_any : dnnl_ab));
    fine = fine &&
           good(dnnl_matmul_primitive_desc_create(desc, engine, m[X], m[W], m[BIAS], m[Y], NULL));
    for (size_t i = 0; i < OPERANDS; i++)
        dnnl_memory_desc_destroy(m[i]);
    return fine;
#else
    dnnl_memory_desc_t m[OPERANDS];
    dnnl_matmul_desc_t matmul;
    for (size_t i = 0; i < OPERANDS; i++)
        if (!good(dnnl_memory_desc_init_by_tag(&m[i], 2, dims[i], types[i],
                                               i == W ? dnnl_format_tag_any : dnnl_ab)))
            return false;
    return good(dnnl_matmul_desc_init(&matmul, &m[X], &m[W], &m[BIAS], &m[Y])) &&
           good(dnnl_primitive_desc_create(desc, &matmul, NULL, engine, NULL));
#endif
}

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t memory_desc;
#else
typedef const dnnl_memory_desc_t *memory_desc;
#endif

/* Memory for an operand, touched; every byte is small, which is no NaN in any type. */
static bool make_memory(dnnl_memory_t *memory, const_dnnl_primitive_desc_t desc, dnnl_query_t what,
                        int index)
{
    const memory_desc d = dnnl_primitive_desc_query_md(desc, what, index);
    void *data;
    if (!d || !good(dnnl_memory_create(memory, d, engine, DNNL_MEMORY_ALLOCATE)) ||
        !good(dnnl_memory_get_data_handle(*memory, &data)))
        return false;
    memset(data, 0x11, dnnl_memory_desc_get_size(d));
    return true;
}

static bool make_memories(const_dnnl_primitive_desc_t desc)
{
    return make_memory(&job.memory[X], desc, dnnl_query_src_md, 0) &&
           make_memory(&job.memory[W], desc, dnnl_query_weights_md, 0) &&
           make_memory(&job.memory[BIAS], desc, dnnl_query_weights_md, 1) &&
           make_memory(&job.memory[Y], desc, dnnl_query_dst_md, 0);
}

const char *peer_prepare(const peer_case *c, const char **dtype)
{
    const dnnl_data_type_t type = type_of(c->w), result = type == dnnl_s8 ? dnnl_f32 : type;
    const bool product = strcmp(c->op, "linear") == 0 || strcmp(c->op, "linear_int8") == 0;
    dnnl_primitive_desc_t desc;
    if (!product || c->rank != 3)
        return "its products alone are compared";
    const bool int8 = strcmp(c->op, "linear_int8") == 0;
    if (type == dnnl_data_type_undef || (type == dnnl_s8) != int8 ||
        int8 != (strcmp(c->x, "i8") == 0))
        return "it has no product of these types";
    peer_release();
    omp_set_num_threads(c->threads);
    const dnnl_dim_t M = (dnnl_dim_t)c->shape[0], N = (dnnl_dim_t)c->shape[1],
                     K = (dnnl_dim_t)c->shape[2];
    const dnnl_dim_t x[] = {M, K}, w[] = {K, N}, bias[] = {1, N}, y[] = {M, N};
    const dnnl_dim_t *const dims[OPERANDS] = {x, w, bias, y};
    const dnnl_data_type_t types[OPERANDS] = {type, type, result, result};
    if (!describe(&desc, dims, types))
        return "it refuses this type on this cpu";
    const bool fine = good(dnnl_primitive_create(&job.product, desc)) && make_memories(desc);
    dnnl_primitive_desc_destroy(desc);
    if (!fine)
        return "no memory";
    *dtype = c->w;
    return NULL;
}

bool peer_run(void)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, job.memory[X]},
                                    {DNNL_ARG_WEIGHTS, job.memory[W]},
                                    {DNNL_ARG_BIAS, job.memory[BIAS]},
                                    {DNNL_ARG_DST, job.memory[Y]}};
    return good(dnnl_primitive_execute(job.product, stream, OPERANDS, args)) &&
           good(dnnl_stream_wait(stream));
}

void peer_release(void)
{
    if (job.product)
        dnnl_primitive_destroy(job.product);
    for (size_t i = 0; i < OPERANDS; i++)
        if (job.memory[i])
            dnnl_memory_destroy(job.memory[i]);
    memset(&job, 0, sizeof job);
}
