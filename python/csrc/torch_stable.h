/* Torch's stable C interface, as far as it is used here. The functions are in libtorch_cpu.so, which the
 * process has loaded before this library; those that only newer versions have are looked up by name (call.c).
 *
 * A kernel gets its arguments in a stack of 64-bit slots and leaves its results in the same slots, from the
 * first on. A tensor is a handle that the kernel owns; numbers and flags stand in the low bytes; an optional
 * argument is 0, or the address of one slot on the heap, which is the kernel's to free. */
#ifndef ZOE_TORCH_STABLE_H
#define ZOE_TORCH_STABLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zoe_torch_tensor *zoe_torch_handle;   /* of a tensor */
typedef struct zoe_torch_library *zoe_torch_library; /* a set of operators */
typedef void (*zoe_torch_kernel)(uint64_t *stack, uint64_t arguments, uint64_t results);

/* Each returns 0, or another number after an error. */
int32_t aoti_torch_library_init_def(const char *name, const char *file, uint32_t line,
                                    zoe_torch_library *library);
int32_t aoti_torch_library_init_fragment(const char *name, const char *file, uint32_t line,
                                         zoe_torch_library *library);
int32_t aoti_torch_library_init_impl(const char *name, const char *key, const char *file,
                                     uint32_t line, zoe_torch_library *library);
int32_t aoti_torch_library_def(zoe_torch_library library, const char *schema);
int32_t aoti_torch_library_impl(zoe_torch_library library, const char *name,
                                zoe_torch_kernel kernel);

/* Any operator by its name and overload ("" for none). Takes over what the stack holds, and leaves the results. */
int32_t aoti_torch_call_dispatcher(const char *name, const char *overload, uint64_t *stack);

int32_t aoti_torch_new_tensor_handle(zoe_torch_handle tensor, zoe_torch_handle *another);
int32_t aoti_torch_delete_tensor_object(zoe_torch_handle tensor);
int32_t aoti_torch_get_data_ptr(zoe_torch_handle tensor, void **data);
int32_t aoti_torch_get_dim(zoe_torch_handle tensor, int64_t *rank);
int32_t aoti_torch_get_sizes(zoe_torch_handle tensor, int64_t **sizes);
int32_t aoti_torch_get_strides(zoe_torch_handle tensor, int64_t **strides);
int32_t aoti_torch_get_dtype(zoe_torch_handle tensor, int32_t *dtype);
int32_t aoti_torch_get_device_type(zoe_torch_handle tensor, int32_t *type);
int32_t aoti_torch_is_contiguous(zoe_torch_handle tensor, bool *contiguous);
int32_t aoti_torch_empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides,
                                 int32_t dtype, int32_t device_type, int32_t device_index,
                                 zoe_torch_handle *tensor);
int32_t aoti_torch_copy_(zoe_torch_handle self, zoe_torch_handle source, int32_t non_blocking);

int32_t aoti_torch_device_type_cpu(void);
int32_t aoti_torch_device_type_meta(void);
int32_t aoti_torch_memory_format_contiguous_format(void);
int32_t aoti_torch_dtype_float32(void);
int32_t aoti_torch_dtype_float16(void);
int32_t aoti_torch_dtype_bfloat16(void);
int32_t aoti_torch_dtype_float64(void);
int32_t aoti_torch_dtype_int64(void);
int32_t aoti_torch_dtype_int32(void);
int32_t aoti_torch_dtype_int16(void);
int32_t aoti_torch_dtype_int8(void);
int32_t aoti_torch_dtype_uint8(void);
int32_t aoti_torch_dtype_bool(void);

/* Throws a C++ exception unless `condition`; Python sees a RuntimeError. */
void aoti_torch_check(bool condition, const char *function, const char *file, uint32_t line,
                      const char *message);

#endif
