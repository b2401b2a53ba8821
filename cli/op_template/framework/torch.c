/* The operator in PyTorch: loading this library (torch.ops.load_library) defines
 * torch.ops.custom.<op>, for the CPU and for tensors without data, with which torch traces and
 * compiles. Pure C through torch's stable interface. */
#define _GNU_SOURCE /* RTLD_NOLOAD, dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"
#include "torch_stable.h"

#define NAMESPACE "custom"

typedef struct torch_call {
    op_call op; /* first: op_call.ask gets its address */
    zoe_torch_handle input[OP_INPUTS], copy[OP_INPUTS], output[OP_OUTPUTS], scratch;
    bool meta;
} torch_call;

/* ---- what only some versions of torch have ---- */

typedef void (*range_fn)(int64_t begin, int64_t end, void *arg);
static struct {
    int32_t (*parallel_for)(int64_t begin, int64_t end, int64_t grain, range_fn fn,
                            void *arg);     /* since 2.10 */
    int32_t (*threads)(uint32_t *n);        /* since 2.10 */
    int32_t (*new_slot)(uint64_t **slot);   /* since 2.13 */
    int32_t (*delete_slot)(uint64_t *slot); /* since 2.13 */
    void *(*operator_new)(size_t bytes);    /* before, slots were C++'s */
    void (*operator_delete)(void *memory);
    const char *(*what)(void); /* since 2.13: the sentence of the last error */
} torch;

/* Function pointers may not be cast from void * in ISO C; copied, they may. */
static void look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

static void look_up_all(void)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return;
    look_up(library, "torch_parallel_for", &torch.parallel_for);
    look_up(library, "torch_get_num_threads", &torch.threads);
    look_up(library, "torch_new_stable_ivalue", &torch.new_slot);
    look_up(library, "torch_delete_stable_ivalue", &torch.delete_slot);
    look_up(library, "_Znwm", &torch.operator_new);
    look_up(library, "_ZdlPv", &torch.operator_delete);
    look_up(library, "torch_exception_get_what_without_backtrace", &torch.what);
}

/* An optional value that torch is to take over: NULL if there is no memory. */
static uint64_t *new_slot(uint64_t value)
{
    uint64_t *slot = NULL;
    if (torch.new_slot)
        torch.new_slot(&slot);
    else if (torch.operator_new)
        slot = torch.operator_new(sizeof *slot);
    if (slot)
        *slot = value;
    return slot;
}

static void free_slot(uint64_t *slot)
{
    if (torch.delete_slot)
        torch.delete_slot(slot);
    else if (torch.operator_delete)
        torch.operator_delete(slot);
}

/* ---- the end of a call ---- */

static void give_back(zoe_torch_handle *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tensors[i]) {
            aoti_torch_delete_tensor_object(tensors[i]);
            tensors[i] = NULL;
        }
}

static void end(torch_call *call)
{
    give_back(call->input, OP_INPUTS);
    give_back(call->copy, OP_INPUTS);
    give_back(&call->scratch, 1);
}

/* Throws; nothing of the call is left. */
static void fail(torch_call *call)
{
    end(call);
    give_back(call->output, OP_OUTPUTS);
    aoti_torch_check(false, OP_NAME, NAMESPACE, 0, call->op.message);
    abort(); /* not reached */
}

static void check(torch_call *call, int32_t error, const char *what)
{
    if (error == 0)
        return;
    op_refuse(&call->op, "torch could not %s: %s", what,
              torch.what ? torch.what() : "it says more in its log");
    fail(call);
}

/* ---- arguments ---- */

/* Takes over what stands in the stack: tensors in order, then attributes that are arguments. */
static void read_arguments(torch_call *call, const uint64_t *stack)
{
    for (int i = 0; i < OP_INPUTS; i++) {
        uint64_t value = *stack++;
        if (op_inputs[i].optional && value != 0) {
            uint64_t *slot = (uint64_t *)(uintptr_t)value;
            value = *slot;
            free_slot(slot);
        }
        call->input[i] = (zoe_torch_handle)(uintptr_t)value;
    }
    for (int i = 0; i < OP_ATTRS; i++) {
        const uint64_t value = *stack++;
        if (op_attrs[i].kind == OP_FLOAT)
            memcpy(&call->op.attr[i].f, &value, sizeof value);
        else if (op_attrs[i].kind == OP_INT)
            call->op.attr[i].i = (int64_t)value;
        else
            call->op.attr[i].b = (value & 0xff) != 0;
    }
}

static op_type type_of(int32_t number)
{
    return number == aoti_torch_dtype_float16()    ? OP_F16
           : number == aoti_torch_dtype_bfloat16() ? OP_BF16
           : number == aoti_torch_dtype_float32()  ? OP_F32
                                                   : OP_NONE;
}

/* Torch's numbers of types and devices are part of its files and do not change. */
static const char *type_name(int32_t number)
{
    static const char *const names[] = {"uint8",           "int8",
                                        "int16",           "int32",
                                        "int64",           "float16",
                                        "float32",         "float64",
                                        "complex32",       "complex64",
                                        "complex128",      "bool",
                                        "qint8",           "quint8",
                                        "qint32",          "bfloat16",
                                        "quint4x2",        "quint2x4",
                                        "bits1x8",         "bits2x4",
                                        "bits4x2",         "bits8",
                                        "bits16",          "float8_e5m2",
                                        "float8_e4m3fn",   "float8_e5m2fnuz",
                                        "float8_e4m3fnuz", "uint16",
                                        "uint32",          "uint64"};
    return number >= 0 && (size_t)number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

static const char *device_name(int32_t number)
{
    static const char *const names[] = {"cpu", "cuda", "mkldnn",       "opengl", "opencl", "ideep",
                                        "hip", "fpga", "maia",         "xla",    "vulkan", "metal",
                                        "xpu", "mps",  "meta",         "hpu",    "ve",     "lazy",
                                        "ipu", "mtia", "privateuseone"};
    return number >= 0 && (size_t)number < sizeof names / sizeof names[0] ? names[number]
                                                                          : "another device";
}

static int32_t number_of(op_type type)
{
    return type == OP_F16    ? aoti_torch_dtype_float16()
           : type == OP_BF16 ? aoti_torch_dtype_bfloat16()
                             : aoti_torch_dtype_float32();
}

/* Torch calls the kernel of one of the devices there are. */
static void refuse_device(torch_call *call, int index, int32_t device, int32_t wanted)
{
    int other = 0;
    for (; other < OP_INPUTS; other++) {
        int32_t found = -1;
        if (call->input[other] && aoti_torch_get_device_type(call->input[other], &found) == 0 &&
            found == wanted)
            break;
    }
    op_refuse(&call->op, "%s lies on %s, but %s on %s; wanted all on one device",
              op_inputs[index].name, device_name(device),
              other < OP_INPUTS ? op_inputs[other].name : "the operator runs", device_name(wanted));
}

/* What can be told of an argument without its data. */
static void describe(torch_call *call, int index)
{
    op_tensor *t = &call->op.input[index];
    zoe_torch_handle tensor = call->input[index];
    t->given = tensor != NULL;
    if (!t->given)
        return;
    int64_t rank, *sizes;
    int32_t dtype, device;
    const int32_t wanted =
        call->meta ? aoti_torch_device_type_meta() : aoti_torch_device_type_cpu();
    check(call, aoti_torch_get_dim(tensor, &rank), "tell a rank");
    check(call, aoti_torch_get_dtype(tensor, &dtype), "tell a type");
    check(call, aoti_torch_get_device_type(tensor, &device), "tell a device");
    t->type = type_of(dtype);
    t->type_name = type_name(dtype);
    t->rank = (int)rank;
    if (rank > OP_MOST_AXES)
        op_refuse(&call->op, "%s has rank %lld, wanted at most %d", op_inputs[index].name,
                  (long long)rank, OP_MOST_AXES);
    else if (device != wanted)
        refuse_device(call, index, device, wanted);
    if (call->op.failed)
        fail(call);
    for (int i = 0; i < t->rank; i++)
        t->shape[i] = OP_UNKNOWN;
    if (call->meta)
        return; /* sizes may be symbols, for which the next function has no answer */
    check(call, aoti_torch_get_sizes(tensor, &sizes), "tell a shape");
    memcpy(t->shape, sizes, (size_t)rank * sizeof *sizes);
}

/* The size as a number. Torch notes that its graph holds for this number only if it was a
 * symbol. */
static int64_t ask_size(op_call *op, int input, int axis)
{
    torch_call *call = (torch_call *)(void *)op;
    zoe_torch_handle tensor = NULL;
    if (aoti_torch_new_tensor_handle(call->input[input], &tensor) == 0) {
        uint64_t stack[2] = {(uint64_t)(uintptr_t)tensor, (uint64_t)axis};
        if (aoti_torch_call_dispatcher("aten::sym_size", "int", stack) == 0)
            return (int64_t)stack[0];
    }
    op_refuse(op, "torch could not tell a size of %s: %s", op_inputs[input].name,
              torch.what ? torch.what() : "it says more in its log");
    return OP_UNKNOWN;
}

/* A tensor whose last axis is the fastest, with anything in it. */
static void new_dense(torch_call *call, zoe_torch_handle *made, int rank, const int64_t *shape,
                      op_type type, int32_t device)
{
    int64_t strides[OP_MOST_AXES], next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = next;
        if (shape[i] > 1 && __builtin_mul_overflow(next, shape[i], &next)) {
            op_refuse(&call->op, "a tensor of more elements than can be counted");
            fail(call);
        }
    }
    check(call, aoti_torch_empty_strided(rank, shape, strides, number_of(type), device, 0, made),
          "make a tensor");
}

/* Where the data is; a copy of it if it is not dense. */
static void lay_open(torch_call *call, int index)
{
    op_tensor *t = &call->op.input[index];
    if (!t->given)
        return;
    bool dense;
    zoe_torch_handle tensor = call->input[index];
    check(call, aoti_torch_is_contiguous(tensor, &dense), "tell strides");
    if (!dense) {
        new_dense(call, &call->copy[index], t->rank, t->shape, t->type,
                  aoti_torch_device_type_cpu());
        check(call, aoti_torch_copy_(call->copy[index], tensor, 0), "copy a tensor");
        tensor = call->copy[index];
    }
    check(call, aoti_torch_get_data_ptr(tensor, &t->data), "give access to memory");
}

/* ---- results ---- */

/* Dense, of the shape of an input, which may have symbols in it. */
static void new_like(torch_call *call, int index)
{
    const op_result *r = &call->op.output[index];
    uint64_t *type = new_slot((uint64_t)number_of(r->type));
    uint64_t *format = new_slot((uint64_t)aoti_torch_memory_format_contiguous_format());
    zoe_torch_handle like = NULL;
    if (!type || !format) {
        op_refuse(&call->op, "no memory for a result");
        fail(call);
    }
    check(call, aoti_torch_new_tensor_handle(call->input[r->like], &like), "hold a tensor");
    /* self, dtype, layout, device, pin_memory, memory_format */
    uint64_t stack[6] = {(uint64_t)(uintptr_t)like,  (uint64_t)(uintptr_t)type, 0, 0, 0,
                         (uint64_t)(uintptr_t)format};
    check(call, aoti_torch_call_dispatcher("aten::empty_like", "", stack), "make a result");
    call->output[index] = (zoe_torch_handle)(uintptr_t)stack[0];
}

static void new_output(torch_call *call, int index)
{
    op_result *r = &call->op.output[index];
    if (call->meta && r->like != OP_FROM_SIZES) {
        new_like(call, index);
        return;
    }
    new_dense(call, &call->output[index], r->rank, r->shape, r->type,
              call->meta ? aoti_torch_device_type_meta() : aoti_torch_device_type_cpu());
    if (!call->meta)
        check(call, aoti_torch_get_data_ptr(call->output[index], &r->data),
              "give access to memory");
}

/* ---- on torch's threads ---- */

typedef struct range {
    op_task task;
    void *arg;
} range;

static void run_range(int64_t begin, int64_t last, void *arg)
{
    const range *r = arg;
    for (int64_t i = begin; i < last; i++)
        r->task(r->arg, (size_t)i);
}

/* Within one of torch's own parallel regions it runs one after the other; so it does before
 * torch 2.10. */
static void in_parallel(size_t n, op_task task, void *arg)
{
    range r = {task, arg};
    if (n < 2 || !torch.parallel_for || torch.parallel_for(0, (int64_t)n, 1, run_range, &r) != 0)
        run_range(0, (int64_t)n, &r);
}

static size_t threads(void)
{
    uint32_t n = 1;
    return torch.parallel_for && torch.threads && torch.threads(&n) == 0 && n > 0 ? n : 1;
}

static void compute(torch_call *call)
{
    size_t bytes = 0;
    void *scratch = NULL;
    for (int i = 0; i < OP_INPUTS; i++)
        lay_open(call, i);
    if (!op_plan(&call->op, threads(), &bytes))
        fail(call);
    if (bytes >
        0) { /* torch's memory: aligned to 64 bytes, kept for the next call, seen by its profiler */
        const int64_t size = (int64_t)(bytes / sizeof(float)), stride = 1;
        check(call,
              aoti_torch_empty_strided(1, &size, &stride, aoti_torch_dtype_float32(),
                                       aoti_torch_device_type_cpu(), 0, &call->scratch),
              "make scratch memory");
        check(call, aoti_torch_get_data_ptr(call->scratch, &scratch), "give access to memory");
    }
    op_run(&call->op, scratch, in_parallel);
}

/* ---- the way in ---- */

static void enter(uint64_t *stack, bool meta)
{
    torch_call call = {.meta = meta, .op.ask = ask_size};
    read_arguments(&call, stack);
    for (int i = 0; i < OP_INPUTS; i++)
        describe(&call, i);
    if (!op_prepare(&call.op))
        fail(&call);
    for (int i = 0; i < OP_OUTPUTS; i++)
        new_output(&call, i);
    if (!meta && op_output_to_fill(&call.op) < OP_OUTPUTS)
        compute(&call);
    end(&call);
    for (int i = 0; i < OP_OUTPUTS; i++)
        stack[i] = (uint64_t)(uintptr_t)call.output[i];
}

static void kernel_cpu(uint64_t *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    enter(stack, false);
}

static void kernel_meta(uint64_t *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    enter(stack, true);
}

static void implement(const char *key, zoe_torch_kernel kernel)
{
    zoe_torch_library library = NULL;
    if (aoti_torch_library_init_impl(NAMESPACE, key, OP_NAME, 0, &library) != 0 ||
        aoti_torch_library_impl(library, OP_NAME, kernel) != 0)
        fprintf(stderr, "%s: torch takes no kernel for %s\n", OP_NAME, key);
}

/* A fragment, so that many libraries may define operators in one namespace. Torch keeps what it
 * is given here until the process ends. No exception may leave this function: the loader above
 * it is C. */
__attribute__((constructor)) static void define_operator(void)
{
    zoe_torch_library library = NULL;
    look_up_all();
    if (aoti_torch_library_init_fragment(NAMESPACE, OP_NAME, 0, &library) != 0 ||
        aoti_torch_library_def(library, OP_SCHEMA) != 0) {
        Dl_info self = {0};
        dladdr(&torch, &self);
        fprintf(stderr, "%s: torch has an operator %s::%s already, so %s adds nothing\n", OP_NAME,
                NAMESPACE, OP_NAME, self.dli_fname ? self.dli_fname : "this library");
        return;
    }
    implement("CPU", kernel_cpu);
    implement("Meta", kernel_meta);
}
