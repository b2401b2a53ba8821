/* Wan VAE: how a pass over a clip is cut, in bands or in patches for ranks, and what it takes. */
#include "model/vae_plan.h"

/* Buffers up to this size are not worth bands, which take some 5 % more time: each call turns the
 * weights of Winograd's form anew. */
#define FEW_BYTES ((size_t)512 << 20)

static size_t times(size_t a, size_t b)
{
    size_t n;
    return zoe_size_mul(&n, a, b) ? n : SIZE_MAX;
}

static size_t plus(size_t a, size_t b)
{
    size_t n;
    return zoe_size_add(&n, a, b) ? n : SIZE_MAX;
}

size_t zoe_vae_frames_bytes(size_t frames, size_t H, size_t W)
{
    return zoe_arena_bytes(times(frames, times(H, times(W, 3))), sizeof(float));
}

size_t zoe_vae_between_bytes(const vae_pass *p)
{
    const size_t place = times(p->h, times(p->w, p->C));
    return zoe_arena_bytes(times(p->large.chunks, place), sizeof(float));
}

/* Rows of pixels of a band: as told, else about a tenth of the frame. 0: no bands. */
static size_t band_rows(const zoe_vae *vae, size_t H)
{
    const size_t unit = 2 * vae->form->stride;
    const size_t tenth = (H / 10 + unit - 1) / unit * unit;
    const size_t band = vae->band ? vae->band : zoe_max(tenth, unit);
    return band >= H ? 0 : band;
}

/* Both ways, and which is taken: bands are, where they were asked for or save much memory. */
static vae_pass choose(const zoe_context *ctx, const zoe_vae *vae, vae_pass whole, vae_pass banded,
                       size_t H, bool watched)
{
    const bool never = vae->band == ZOE_VAE_WHOLE || watched || band_rows(vae, H) == 0 ||
                       zoe_vae_patch_shared(&whole.large.patch);
    if (!zoe_vae_patch_works(&whole.large.patch))
        return whole;
    whole.bytes =
        plus(whole.bytes, zoe_vae_run_bytes(ctx, &whole.large, &whole.traffic, &whole.keys));
    if (never)
        return whole;
    banded.bytes = plus(banded.bytes, zoe_vae_between_bytes(&banded));
    banded.bytes = plus(banded.bytes, zoe_max(zoe_vae_run_bytes(ctx, &banded.small, NULL, NULL),
                                              zoe_vae_run_bytes(ctx, &banded.large, NULL, NULL)));
    banded.banded = true;
    return vae->band || (whole.bytes > FEW_BYTES && banded.bytes < whole.bytes) ? banded : whole;
}

vae_patch zoe_vae_patch_of(const zoe_vae *vae, size_t h, size_t w)
{
    const size_t workers = vae->workers ? vae->workers : 1;
    return (vae_patch){
        .comm = vae->comm,
        .ranks = zoe_comm_size(vae->comm),
        .rank = zoe_comm_rank(vae->comm),
        .grid = vae->grid.rows ? vae->grid : zoe_vae_grid_choose(workers, h, w),
        .h = h,
        .w = w,
    };
}

/* The same for a rank that may not be there. */
static vae_patch planned_patch(size_t ranks, size_t workers, size_t rank, size_t h, size_t w)
{
    return (vae_patch){
        .ranks = ranks, .rank = rank, .grid = zoe_vae_grid_choose(workers, h, w), .h = h, .w = w};
}

zoe_status zoe_vae_check_grid(zoe_context *ctx, const vae_patch *p)
{
    const vae_area last = zoe_vae_patch_area(p, p->grid.rows * p->grid.columns - 1, 1);
    if (last.rows == 0 || last.columns == 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "VAE: a grid of %zu x %zu patches for latent frames of %zu x %zu: a patch "
                        "is at least two positions high and wide, but for the last ones",
                        p->grid.rows, p->grid.columns, p->h, p->w);
    return ZOE_OK;
}

/* Bytes of the patches that this rank gathers, and of what it sends and receives for it, `times` times
 * over. */
static void count_result(vae_pass *p, size_t times_over)
{
    const vae_patch *patch = &p->large.patch;
    p->bytes =
        plus(p->bytes, zoe_arena_bytes(zoe_vae_gather_room(patch, &p->result), sizeof(float)));
    zoe_vae_gather_count(patch, &p->result, times_over, &p->traffic);
}

vae_pass zoe_vae_encode_pass(const zoe_context *ctx, const zoe_vae *vae, vae_patch part, size_t F,
                             bool watched)
{
    const vae_net *net = &vae->encoder;
    const size_t patch = vae->form->patch, stride = vae->form->stride;
    const size_t H = times(part.h, stride), W = times(part.w, stride);
    const bool shared = zoe_vae_patch_shared(&part);
    const vae_area area = zoe_vae_patch_area(&part, part.rank, stride);
    const size_t one = patch > 1 || shared ? zoe_vae_frames_bytes(1, H, W) : 0;
    const vae_part all = {.net = net,
                          .to = net->count,
                          .chunks = (F + VAE_FRAME_STRIDE - 1) / VAE_FRAME_STRIDE,
                          .first_frames = 1,
                          .frames = VAE_FRAME_STRIDE,
                          .patch = part,
                          .scale = stride / patch};
    vae_pass whole = {.large = all}, banded;
    if (zoe_vae_patch_works(&part))
        whole.bytes = plus(one, zoe_vae_frames_bytes(VAE_FRAME_STRIDE, area.rows, area.columns));
    if (shared) {
        whole.result =
            (vae_gather){.to = VAE_TO_ALL, .T = times(vae->z, all.chunks), .C = 1, .scale = 1};
        count_result(&whole, 1);
        whole.ends = whole.traffic;
    }
    banded = whole;
    banded.h = part.h;
    banded.w = part.w;
    banded.C = net->split ? net->layers[net->split - 1].out : 0;
    banded.large.to = net->split;
    banded.large.band = band_rows(vae, H) / stride;
    banded.small = (vae_part){.net = net,
                              .from = net->split,
                              .to = net->count,
                              .chunks = all.chunks,
                              .first_frames = 1,
                              .frames = 1,
                              .patch = part,
                              .scale = 1};
    return choose(ctx, vae, whole, banded, H, watched || net->split == 0);
}

vae_pass zoe_vae_decode_pass(const zoe_context *ctx, const zoe_vae *vae, vae_patch part, size_t f,
                             bool watched)
{
    const vae_net *net = &vae->decoder;
    const size_t patch = vae->form->patch, stride = vae->form->stride;
    const size_t H = times(part.h, stride), W = times(part.w, stride);
    const size_t frames = plus(times(VAE_FRAME_STRIDE, f ? f - 1 : 0), 1);
    const bool shared = zoe_vae_patch_shared(&part);
    const vae_area area = zoe_vae_patch_area(&part, part.rank, 1);
    const size_t latent = times(times(area.rows, area.columns), vae->z);
    const bool writes = shared ? part.rank == 0 : patch > 1;
    const vae_part all = {.net = net,
                          .to = net->count,
                          .chunks = f,
                          .first_frames = 1,
                          .frames = 1,
                          .patch = part,
                          .scale = 1};
    vae_pass whole = {.large = all}, banded;
    if (zoe_vae_patch_works(&part))
        whole.bytes = plus(zoe_arena_bytes(latent, sizeof(float)),
                           writes ? zoe_vae_frames_bytes(VAE_FRAME_STRIDE, H, W) : 0);
    if (shared) {
        whole.result = (vae_gather){.C = 3 * patch * patch, .scale = stride / patch, .T = 1};
        zoe_vae_gather_count(&part, &whole.result, 1, &whole.traffic);
        whole.result.T = VAE_FRAME_STRIDE;
        count_result(&whole, f ? f - 1 : 0);
        whole.ends = whole.traffic;
    }
    banded = whole;
    banded.bytes = plus(banded.bytes, zoe_vae_frames_bytes(frames, H, W));
    banded.h = part.h;
    banded.w = part.w;
    banded.C = net->split ? net->layers[net->split - 1].out : 0;
    banded.small = all;
    banded.small.to = net->split;
    banded.large.from = net->split;
    banded.large.band = band_rows(vae, H) / patch;
    return choose(ctx, vae, whole, banded, H, watched || net->split == 0);
}

size_t zoe_vae_encode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t F, size_t H,
                            size_t W)
{
    return zoe_vae_encode_pass(ctx, vae,
                               zoe_vae_patch_of(vae, H / vae->form->stride, W / vae->form->stride),
                               F, false)
        .bytes;
}

size_t zoe_vae_decode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t f, size_t h,
                            size_t w)
{
    return zoe_vae_decode_pass(ctx, vae, zoe_vae_patch_of(vae, h, w), f, false).bytes;
}

/* What a pass takes of one rank of a plan. */
static zoe_vae_need need_of(vae_pass p)
{
    return (zoe_vae_need){p.bytes, p.traffic, p.ends, p.keys, zoe_vae_patch_works(&p.large.patch)};
}

zoe_vae_need zoe_vae_encode_need(const zoe_context *ctx, const zoe_vae *vae, size_t F, size_t H,
                                 size_t W, size_t ranks, size_t workers, size_t rank)
{
    const size_t stride = vae->form->stride;
    const vae_patch part = planned_patch(ranks, workers, rank, H / stride, W / stride);
    return need_of(zoe_vae_encode_pass(ctx, vae, part, F, false));
}

zoe_vae_need zoe_vae_decode_need(const zoe_context *ctx, const zoe_vae *vae, size_t f, size_t h,
                                 size_t w, size_t ranks, size_t workers, size_t rank)
{
    return need_of(
        zoe_vae_decode_pass(ctx, vae, planned_patch(ranks, workers, rank, h, w), f, false));
}

static bool has_bands(const zoe_vae *vae)
{
    return vae->band > 0 && vae->band != ZOE_VAE_WHOLE;
}

static zoe_status refuse_both(zoe_context *ctx, size_t rows, size_t ranks)
{
    return zoe_fail(ctx, ZOE_INVALID,
                    "VAE: bands of %zu rows of pixels and %zu ranks: frames are cut into bands or "
                    "shared between ranks, not both",
                    rows, ranks);
}

zoe_status zoe_vae_set_ranks(zoe_context *ctx, zoe_vae *vae, zoe_comm *comm, size_t ranks)
{
    const size_t size = zoe_comm_size(comm);
    if (size > 1 && has_bands(vae))
        return refuse_both(ctx, vae->band, size);
    vae->comm = comm;
    vae->workers = ranks && ranks < size ? ranks : size;
    vae->grid = (zoe_vae_grid){0, 0};
    return ZOE_OK;
}

zoe_status zoe_vae_set_grid(zoe_context *ctx, zoe_vae *vae, zoe_vae_grid grid)
{
    const size_t size = zoe_comm_size(vae->comm);
    size_t patches;
    if (grid.rows == 0 || !zoe_size_mul(&patches, grid.rows, grid.columns) || patches == 0 ||
        patches > size)
        return zoe_fail(ctx, ZOE_INVALID, "VAE: a grid of %zu x %zu patches for %zu ranks",
                        grid.rows, grid.columns, size);
    vae->grid = grid;
    return ZOE_OK;
}

zoe_status zoe_vae_set_band(zoe_context *ctx, zoe_vae *vae, size_t rows)
{
    const size_t unit = 2 * vae->form->stride;
    if (rows != ZOE_VAE_WHOLE && rows % unit != 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "bands of %zu rows of pixels: the %s VAE wants a multiple of %zu", rows,
                        vae->form->name, unit);
    if (rows && rows != ZOE_VAE_WHOLE && zoe_comm_size(vae->comm) > 1)
        return refuse_both(ctx, rows, zoe_comm_size(vae->comm));
    vae->band = rows;
    return ZOE_OK;
}
