/* The frame of a call: ownership of handles, conversions, threads, errors. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "call.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 24, MOST_RESULTS = 8, MOST_OWNED = 2 * MOST_ARGUMENTS };

typedef struct argument {
    zoe_torch_handle tensor; /* NULL: not a tensor, or not given */
    uint64_t value;
    bool given;
} argument;

struct zoe_call {
    const zoe_torch_op *op;
    argument arguments[MOST_ARGUMENTS];
    size_t n_arguments;
    zoe_torch_handle owned[MOST_OWNED], results[MOST_RESULTS];
    size_t n_owned, n_results;
    zoe_context *context;
    void *work;
};

/* ---- what only some versions of torch have ---- */

typedef void (*range_fn)(int64_t begin, int64_t end, void *arg);
static struct {
    int32_t (*parallel_for)(int64_t begin, int64_t end, int64_t grain, range_fn fn, void *arg);
    int32_t (*threads)(uint32_t *n);        /* since 2.10 */
    int (*threads_before)(void);            /* the C++ function at::get_num_threads() */
    int32_t (*delete_slot)(uint64_t *slot); /* since 2.13 */
    void (*operator_delete)(void *memory);  /* before it, slots came from C++'s operator new */
    const char *(*what)(void);              /* since 2.13: the sentence of the last error */
} torch;

/* Types by torch's numbers for them. */
static struct {
    int32_t torch;
    zoe_dtype zoe;
} types[10];

/* Function pointers may not be cast from void * in ISO C; copied, they may. */
static void look_up(void *library, const char *name, void *function)
{
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
}

void zoe_call_setup(void)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    look_up(library, "torch_parallel_for", &torch.parallel_for);
    look_up(library, "torch_get_num_threads", &torch.threads);
    look_up(library, "_ZN2at15get_num_threadsEv", &torch.threads_before);
    look_up(library, "torch_delete_stable_ivalue", &torch.delete_slot);
    look_up(library, "_ZdlPv", &torch.operator_delete);
    look_up(library, "torch_exception_get_what_without_backtrace", &torch.what);
    const struct {
        int32_t torch;
        zoe_dtype zoe;
    } all[] = {{aoti_torch_dtype_float32(), ZOE_F32},   {aoti_torch_dtype_float16(), ZOE_F16},
               {aoti_torch_dtype_bfloat16(), ZOE_BF16}, {aoti_torch_dtype_float64(), ZOE_F64},
               {aoti_torch_dtype_int64(), ZOE_I64},     {aoti_torch_dtype_int32(), ZOE_I32},
               {aoti_torch_dtype_int16(), ZOE_I16},     {aoti_torch_dtype_int8(), ZOE_I8},
               {aoti_torch_dtype_uint8(), ZOE_U8},      {aoti_torch_dtype_bool(), ZOE_BOOL}};
    _Static_assert(sizeof all == sizeof types, "a row for each type");
    memcpy(types, all, sizeof types);
}

static zoe_dtype dtype_of(int32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].torch == number)
            return types[i].zoe;
    return ZOE_NONE;
}

static int32_t number_of(zoe_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].zoe == dtype)
            return types[i].torch;
    return -1;
}

static void free_slot(uint64_t *slot)
{
    if (torch.delete_slot)
        torch.delete_slot(slot);
    else if (torch.operator_delete)
        torch.operator_delete(slot);
    else
        free(slot);
}

/* ---- the end of a call ---- */

static void give_back(zoe_call *call)
{
    for (size_t i = 0; i < call->n_owned; i++)
        aoti_torch_delete_tensor_object(call->owned[i]);
    call->n_owned = 0;
    zoe_context_free(call->context);
    call->context = NULL;
    free(call->work);
    call->work = NULL;
}

void zoe_call_fail(zoe_call *call, const char *format, ...)
{
    char message[8400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    give_back(call);
    for (size_t i = 0; i < call->n_results; i++)
        aoti_torch_delete_tensor_object(call->results[i]);
    aoti_torch_check(false, call->op->name, "zoetrope", 0, message);
    abort(); /* not reached: the check throws */
}

/* Ends the call if torch reports an error. */
static void check_torch(zoe_call *call, int32_t error, const char *what)
{
    if (error != 0)
        zoe_call_fail(call, "%s: torch could not %s: %s", call->op->name, what,
                      torch.what ? torch.what() : "it says more in its log");
}

void zoe_call_done(zoe_call *call, zoe_status status)
{
    if (status != ZOE_OK)
        zoe_call_fail(call, "%s", zoe_context_message(call->context));
}

/* ---- arguments ---- */

static void own(zoe_call *call, zoe_torch_handle tensor)
{
    call->owned[call->n_owned++] = tensor;
}

/* Takes over the arguments, whose kinds the schema tells. */
static void read_arguments(zoe_call *call, const uint64_t *stack, uint64_t n)
{
    const char *at = strchr(call->op->schema, '(') + 1;
    for (size_t i = 0; i < n; i++) {
        argument *a = &call->arguments[i];
        while (*at == ' ' || *at == ',' || *at == '*')
            at++;
        const size_t length = strcspn(at, " ");
        const bool tensor = strncmp(at, "Tensor", 6) == 0, optional = at[length - 1] == '?';
        uint64_t value = stack[i];
        a->given = true;
        if (optional) {
            uint64_t *slot = (uint64_t *)(uintptr_t)value;
            a->given = slot != NULL;
            value = slot ? *slot : 0;
            if (slot)
                free_slot(slot);
        }
        if (tensor && a->given) {
            a->tensor = (zoe_torch_handle)(uintptr_t)value;
            own(call, a->tensor);
        } else {
            a->value = value;
        }
        at += strcspn(at, ",");
    }
    call->n_arguments = n;
}

static const argument *argument_at(const zoe_call *call, size_t index)
{
    return &call->arguments[index];
}

static zoe_tensor view_of(zoe_call *call, zoe_torch_handle tensor, size_t index)
{
    int64_t rank, *sizes, *strides;
    int32_t dtype, device;
    void *data;
    check_torch(call, aoti_torch_get_device_type(tensor, &device), "tell a device");
    if (device != aoti_torch_device_type_cpu())
        zoe_call_fail(call, "%s: argument %zu lies on another device than the CPU", call->op->name,
                      index + 1);
    check_torch(call, aoti_torch_get_dim(tensor, &rank), "tell a rank");
    check_torch(call, aoti_torch_get_sizes(tensor, &sizes), "tell a shape");
    check_torch(call, aoti_torch_get_strides(tensor, &strides), "tell strides");
    check_torch(call, aoti_torch_get_dtype(tensor, &dtype), "tell a type");
    check_torch(call, aoti_torch_get_data_ptr(tensor, &data), "give access to memory");
    if (rank > ZOE_MAX_RANK)
        zoe_call_fail(call, "%s: argument %zu has rank %lld, wanted at most %d", call->op->name,
                      index + 1, (long long)rank, ZOE_MAX_RANK);
    zoe_tensor t = {.data = data, .dtype = dtype_of(dtype), .rank = (int)rank};
    if (t.dtype == ZOE_NONE)
        zoe_call_fail(call, "%s: argument %zu has a type that no operator takes", call->op->name,
                      index + 1);
    for (int i = 0; i < t.rank; i++) {
        t.shape[i] = (size_t)sizes[i];
        t.stride[i] = (ptrdiff_t)strides[i];
    }
    return t;
}

/* Can the operators walk over it as it is? */
static bool walkable(zoe_tensor t)
{
    for (int i = 0; i < t.rank; i++)
        if (t.shape[i] > 1 && (t.stride[i] < 1 || (i == t.rank - 1 && t.stride[i] != 1)))
            return false;
    return true;
}

static zoe_torch_handle new_tensor(zoe_call *call, zoe_dtype dtype, int rank, const size_t *shape)
{
    int64_t sizes[ZOE_MAX_RANK], strides[ZOE_MAX_RANK], next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        sizes[i] = (int64_t)shape[i];
        strides[i] = next;
        next *= sizes[i] > 1 ? sizes[i] : 1;
    }
    zoe_torch_handle tensor = NULL;
    check_torch(call,
                aoti_torch_empty_strided(rank, sizes, strides, number_of(dtype),
                                         aoti_torch_device_type_cpu(), 0, &tensor),
                "make a tensor");
    return tensor;
}

zoe_tensor zoe_call_target(zoe_call *call, size_t index)
{
    const argument *a = argument_at(call, index);
    return a->tensor ? view_of(call, a->tensor, index) : zoe_tensor_none();
}

zoe_tensor zoe_call_tensor(zoe_call *call, size_t index)
{
    const argument *a = argument_at(call, index);
    if (!a->tensor)
        return zoe_tensor_none();
    const zoe_tensor t = view_of(call, a->tensor, index);
    if (walkable(t))
        return t;
    zoe_torch_handle copy = new_tensor(call, t.dtype, t.rank, t.shape);
    own(call, copy);
    check_torch(call, aoti_torch_copy_(copy, a->tensor, 0), "copy a tensor");
    return view_of(call, copy, index);
}

float zoe_call_float(const zoe_call *call, size_t index)
{
    double value;
    memcpy(&value, &argument_at(call, index)->value, sizeof value);
    return (float)value;
}

int64_t zoe_call_int(const zoe_call *call, size_t index)
{
    return (int64_t)argument_at(call, index)->value;
}

bool zoe_call_flag(const zoe_call *call, size_t index)
{
    return (argument_at(call, index)->value & 0xff) != 0;
}

size_t zoe_call_count(zoe_call *call, size_t index)
{
    const int64_t value = zoe_call_int(call, index);
    if (value < 0)
        zoe_call_fail(call, "%s: argument %zu is %lld, wanted a number from 0 on", call->op->name,
                      index + 1, (long long)value);
    return (size_t)value;
}

int zoe_call_choice(zoe_call *call, size_t index, int last)
{
    const int64_t value = zoe_call_int(call, index);
    if (value < 0 || value > last)
        zoe_call_fail(call, "%s: argument %zu is %lld, wanted 0 to %d", call->op->name, index + 1,
                      (long long)value, last);
    return (int)value;
}

zoe_dtype zoe_call_any_dtype(zoe_call *call, size_t index, zoe_dtype otherwise)
{
    const argument *a = argument_at(call, index);
    if (!a->given)
        return otherwise;
    const zoe_dtype dtype = dtype_of((int32_t)a->value);
    if (dtype == ZOE_NONE)
        zoe_call_fail(call, "%s: argument %zu is a type that no operator takes", call->op->name,
                      index + 1);
    return dtype;
}

zoe_dtype zoe_call_dtype(zoe_call *call, size_t index, zoe_dtype otherwise)
{
    const zoe_dtype dtype = zoe_call_any_dtype(call, index, otherwise);
    if (argument_at(call, index)->given && dtype != ZOE_F32 && dtype != ZOE_F16 &&
        dtype != ZOE_BF16)
        zoe_call_fail(call, "%s: argument %zu is %s, wanted f32, f16 or bf16", call->op->name,
                      index + 1, zoe_dtype_name(dtype));
    return dtype;
}

/* ---- results ---- */

zoe_tensor zoe_call_new(zoe_call *call, zoe_dtype dtype, int rank, const size_t *shape)
{
    zoe_torch_handle tensor = new_tensor(call, dtype, rank, shape);
    call->results[call->n_results++] = tensor;
    return view_of(call, tensor, 0);
}

zoe_tensor zoe_call_new_like(zoe_call *call, zoe_dtype dtype, zoe_tensor x)
{
    return zoe_call_new(call, dtype, x.rank, x.shape);
}

zoe_tensor zoe_call_new_rows(zoe_call *call, zoe_dtype dtype, zoe_tensor x, int axes)
{
    if (axes > x.rank)
        zoe_call_fail(call, "%s: x has rank %d, wanted at least %d", call->op->name, x.rank, axes);
    return zoe_call_new(call, dtype, x.rank - axes, x.shape);
}

zoe_tensor zoe_call_new_unwanted(zoe_call *call, zoe_dtype dtype)
{
    zoe_call_new(call, dtype, 1, (const size_t[]){0});
    return zoe_tensor_none();
}

/* ---- threads and scratch memory ---- */

typedef struct team {
    zoe_team_task task;
    void *arg;
} team;

static void run_members(int64_t begin, int64_t end, void *arg)
{
    const team *t = arg;
    for (int64_t member = begin; member < end; member++)
        t->task(t->arg, (size_t)member);
}

/* On torch's threads. Within one of its parallel regions it runs the members one after the other. */
static void run_team(void *user, size_t members, zoe_team_task task, void *arg)
{
    team t = {task, arg};
    (void)user;
    if (torch.parallel_for(0, (int64_t)members, 1, run_members, &t) != 0)
        run_members(0, (int64_t)members, &t);
}

static int torch_threads(void)
{
    uint32_t n = 0;
    if (torch.threads && torch.threads(&n) == 0)
        return (int)n;
    return torch.threads_before ? torch.threads_before() : 0;
}

zoe_context *zoe_call_context(zoe_call *call)
{
    if (call->context)
        return call->context;
    call->context = zoe_context_new(torch_threads());
    if (!call->context)
        zoe_call_fail(call, "%s: no memory for a context", call->op->name);
    if (torch.parallel_for)
        zoe_context_set_team(call->context, run_team, NULL);
    return call->context;
}

zoe_workspace zoe_call_workspace(zoe_call *call, size_t bytes)
{
    if (bytes == 0)
        return (zoe_workspace){NULL, 0};
    if (bytes > SIZE_MAX - 63 || !(call->work = aligned_alloc(64, (bytes + 63) / 64 * 64)))
        zoe_call_fail(call, "%s: %zu bytes of scratch memory could not be had", call->op->name,
                      bytes);
    return (zoe_workspace){call->work, bytes};
}

/* ---- the way in ---- */

void zoe_call_enter(const zoe_torch_op *op, uint64_t *stack, uint64_t arguments, uint64_t results)
{
    zoe_call call = {.op = op};
    if (arguments > MOST_ARGUMENTS || results > MOST_RESULTS)
        zoe_call_fail(&call, "%s: too many arguments", op->name);
    read_arguments(&call, stack, arguments);
    op->run(&call);
    give_back(&call);
    for (size_t i = 0; i < call.n_results; i++)
        stack[i] = (uint64_t)(uintptr_t)call.results[i];
}
