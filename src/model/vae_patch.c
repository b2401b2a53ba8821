/* Wan VAE: what the ranks that share frames send each other: the edges of patches for the kernels of
 * convolutions, and patches for those who want the whole. */
#include "model/vae_patch.h"

#include "model/weights.h"

static size_t patches(const vae_patch *p)
{
    return p->grid.rows * p->grid.columns;
}

bool zoe_vae_patch_shared(const vae_patch *p)
{
    return p->ranks > 1;
}

bool zoe_vae_patch_works(const vae_patch *p)
{
    return p->rank < patches(p);
}

/* ---- parts of frames ---- */

vae_area zoe_vae_patch_area(const vae_patch *p, size_t rank, size_t scale)
{
    if (rank >= patches(p))
        return (vae_area){0};
    const zoe_span rows = zoe_vae_grid_share(p->h, p->grid.rows, rank / p->grid.columns);
    const zoe_span columns = zoe_vae_grid_share(p->w, p->grid.columns, rank % p->grid.columns);
    return (vae_area){scale * rows.first, scale * columns.first, scale * rows.count,
                      scale * columns.count};
}

zoe_tensor zoe_vae_window(zoe_tensor t, vae_area area)
{
    float *data = t.data;
    if (data)
        t.data = data + (ptrdiff_t)area.top * t.stride[1] + (ptrdiff_t)area.left * t.stride[2];
    t.shape[1] = area.rows;
    t.shape[2] = area.columns;
    return t;
}

typedef struct copying {
    zoe_tensor y, x;
} copying;

static float *row_of(zoe_tensor t, size_t i)
{
    return (float *)t.data + (ptrdiff_t)(i / t.shape[1]) * t.stride[0] +
           (ptrdiff_t)(i % t.shape[1]) * t.stride[1];
}

static void copy_row(void *arg, size_t i, size_t worker)
{
    const copying *c = arg;
    const size_t W = c->x.shape[2], C = c->x.shape[3];
    const ptrdiff_t dense = (ptrdiff_t)C, to = c->y.stride[2], from = c->x.stride[2];
    float *y = row_of(c->y, i);
    const float *x = row_of(c->x, i);
    (void)worker;
    if (to == dense && from == dense)
        memcpy(y, x, W * C * sizeof *y);
    else
        for (size_t w = 0; w < W; w++, y += to, x += from)
            memcpy(y, x, C * sizeof *y);
}

void zoe_vae_copy(const zoe_context *ctx, zoe_tensor y, zoe_tensor x)
{
    zoe_parallel_for(ctx, x.shape[0] * x.shape[1], copy_row, &(copying){y, x});
}

/* ---- edges ---- */

/* Directions: three rows of three, the middle one being the patch itself. */
enum { DIRECTIONS = 9, HERE = 4 };

static bool neighbour(const vae_patch *p, size_t direction, size_t *rank)
{
    const size_t row = p->rank / p->grid.columns + direction / 3;
    const size_t column = p->rank % p->grid.columns + direction % 3; /* each counted from 1 */
    if (direction == HERE || !zoe_vae_patch_works(p) || row == 0 || column == 0 ||
        row > p->grid.rows || column > p->grid.columns)
        return false;
    *rank = (row - 1) * p->grid.columns + column - 1;
    return true;
}

vae_margin zoe_vae_patch_margin(const vae_patch *p, bool after)
{
    size_t rank;
    return (vae_margin){.up = !after && neighbour(p, 1, &rank),
                        .down = neighbour(p, 7, &rank),
                        .left = !after && neighbour(p, 3, &rank),
                        .right = neighbour(p, 5, &rank)};
}

zoe_tensor zoe_vae_inside(zoe_tensor t, vae_margin m)
{
    return zoe_vae_window(
        t, (vae_area){m.up, m.left, t.shape[1] - m.up - m.down, t.shape[2] - m.left - m.right});
}

/* Along one axis of `extent` with margins: what lies in the margin at step 0 (before), all of the
 * inside (1), or the margin behind (2); or, `own`, what lies in the inside next to it. */
static zoe_span along(size_t extent, size_t before, size_t behind, size_t step, bool own)
{
    const size_t end = extent - behind;
    if (step == 1)
        return (zoe_span){before, end - before};
    if (own)
        return (zoe_span){step ? end - 1 : before, 1};
    return step ? (zoe_span){end, behind} : (zoe_span){0, before};
}

static zoe_tensor edge(zoe_tensor t, vae_margin m, size_t direction, bool own)
{
    const zoe_span rows = along(t.shape[1], m.up, m.down, direction / 3, own);
    const zoe_span columns = along(t.shape[2], m.left, m.right, direction % 3, own);
    return zoe_vae_window(t, (vae_area){rows.first, columns.first, rows.count, columns.count});
}

/* t as a dense tensor at this place of the messages. */
static zoe_tensor message(const vae_post *post, size_t *used, zoe_tensor t)
{
    float *data = post->planned ? NULL : post->data + *used;
    *used += zoe_tensor_count(t);
    return zoe_tensor_4d(data, ZOE_F32, t.shape[0], t.shape[1], t.shape[2], t.shape[3]);
}

static zoe_piece piece_of(size_t rank, zoe_tensor t)
{
    return (zoe_piece){rank, t.data, zoe_tensor_count(t) * sizeof(float)};
}

static uint64_t bytes_of(const zoe_piece *pieces, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += pieces[i].bytes;
    return bytes;
}

/* A message goes to every neighbour whose margin lies over this patch, and comes from every one over
 * which this one's lies. */
zoe_status zoe_vae_patch_edges(zoe_context *ctx, const vae_patch *p, vae_post *post, zoe_tensor t,
                               bool after)
{
    const vae_margin margin = zoe_vae_patch_margin(p, after);
    zoe_piece sends[DIRECTIONS], recvs[DIRECTIONS];
    zoe_tensor came[DIRECTIONS], to[DIRECTIONS];
    size_t n_sends = 0, n_recvs = 0, used = 0, rank;
    for (size_t i = 0; i < DIRECTIONS; i++) {
        if (!neighbour(p, i, &rank))
            continue;
        if (!after || (i / 3 <= 1 && i % 3 <= 1)) {
            const zoe_tensor mine = edge(t, margin, i, true), packed = message(post, &used, mine);
            if (!post->planned)
                zoe_vae_copy(ctx, packed, mine);
            sends[n_sends++] = piece_of(rank, packed);
        }
        if (!after || (i / 3 >= 1 && i % 3 >= 1)) {
            to[n_recvs] = edge(t, margin, i, false);
            came[n_recvs] = message(post, &used, to[n_recvs]);
            recvs[n_recvs] = piece_of(rank, came[n_recvs]);
            n_recvs++;
        }
    }
    if (post->planned) {
        post->room = zoe_max(post->room, used);
        post->traffic.sent += post->planned * bytes_of(sends, n_sends);
        post->traffic.received += post->planned * bytes_of(recvs, n_recvs);
        post->traffic.exchanges += n_sends + n_recvs > 0 ? post->planned : 0;
        return ZOE_OK;
    }
    if (n_sends + n_recvs == 0)
        return ZOE_OK;
    zoe_exchange exchange;
    TRY(zoe_exchange_start(ctx, p->comm, &exchange, sends, n_sends, recvs, n_recvs,
                           "edges of VAE patches"));
    TRY(zoe_exchange_wait(ctx, p->comm, &exchange));
    for (size_t i = 0; i < n_recvs; i++)
        zoe_vae_copy(ctx, to[i], came[i]);
    return ZOE_OK;
}

/* ---- gathering ---- */

static size_t receivers(const vae_patch *p, vae_receivers to)
{
    return to == VAE_TO_FIRST ? 1 : to == VAE_TO_PATCHES ? patches(p) : p->ranks;
}

static bool receives(const vae_patch *p, const vae_gather *g)
{
    return p->rank < receivers(p, g->to);
}

static size_t patch_count(const vae_patch *p, const vae_gather *g, size_t rank)
{
    const vae_area a = zoe_vae_patch_area(p, rank, g->scale);
    return g->T * a.rows * a.columns * g->C;
}

static size_t whole_count(const vae_patch *p, const vae_gather *g)
{
    return g->T * g->scale * p->h * g->scale * p->w * g->C;
}

size_t zoe_vae_gather_room(const vae_patch *p, const vae_gather *g)
{
    return receives(p, g) ? whole_count(p, g) : patch_count(p, g, p->rank);
}

void zoe_vae_gather_count(const vae_patch *p, const vae_gather *g, size_t times,
                          zoe_traffic *traffic)
{
    const size_t mine = patch_count(p, g, p->rank);
    const size_t others = receivers(p, g->to) - receives(p, g);
    const uint64_t sent = times * (uint64_t)(mine * others * sizeof(float));
    const uint64_t received =
        receives(p, g) ? times * (uint64_t)((whole_count(p, g) - mine) * sizeof(float)) : 0;
    traffic->sent += sent;
    traffic->received += received;
    traffic->exchanges += sent + received > 0 ? times : 0;
}

/* Where a rank's patch lies in the data of this one. */
static float *place_of(const vae_patch *p, const vae_gather *g, size_t rank)
{
    float *place = g->data;
    for (size_t r = 0; receives(p, g) && r < rank && r < patches(p); r++)
        place += patch_count(p, g, r);
    return place;
}

zoe_tensor zoe_vae_gathered(const vae_patch *p, const vae_gather *g, size_t rank)
{
    const vae_area a = zoe_vae_patch_area(p, rank, g->scale);
    return zoe_tensor_4d(place_of(p, g, rank), ZOE_F32, g->T, a.rows, a.columns, g->C);
}

zoe_status zoe_vae_gather_start(zoe_context *ctx, const vae_patch *p, vae_gather *g,
                                zoe_tensor mine, const char *what)
{
    const bool works = zoe_vae_patch_works(p);
    const size_t n_sends = works ? receivers(p, g->to) : 0;
    const size_t n_recvs = receives(p, g) ? patches(p) : 0;
    const zoe_tensor own = zoe_vae_gathered(p, g, p->rank);
    void *room;
    TRY(zoe_alloc(ctx, &room, n_sends + n_recvs, sizeof(zoe_piece), what));
    zoe_piece *const sends = room, *const recvs = sends + n_sends;
    float *place = g->data;
    if (works)
        zoe_vae_copy(ctx, own, mine);
    for (size_t r = 0; r < n_sends; r++)
        sends[r] = piece_of(r, own);
    for (size_t r = 0; r < n_recvs; r++) {
        recvs[r] = (zoe_piece){r, place, patch_count(p, g, r) * sizeof(float)};
        place += patch_count(p, g, r);
    }
    const zoe_status status =
        zoe_exchange_start(ctx, p->comm, &g->exchange, sends, n_sends, recvs, n_recvs, what);
    zoe_free(room);
    return status;
}

zoe_status zoe_vae_gather_wait(zoe_context *ctx, const vae_patch *p, vae_gather *g)
{
    return zoe_exchange_wait(ctx, p->comm, &g->exchange);
}

void zoe_vae_gather_place(const zoe_context *ctx, const vae_patch *p, const vae_gather *g,
                          zoe_tensor whole)
{
    for (size_t r = 0; r < patches(p); r++)
        zoe_vae_copy(ctx, zoe_vae_window(whole, zoe_vae_patch_area(p, r, g->scale)),
                     zoe_vae_gathered(p, g, r));
}
