/* Wan VAE: how frames are cut into patches for ranks. */
#include "model/model.h"

/* Patches begin at even positions of the latent; see vae_patch.h. */
enum { UNIT = 2 };

static size_t units(size_t n)
{
    return n / UNIT + n % UNIT;
}

zoe_span zoe_vae_grid_share(size_t n, size_t parts, size_t i)
{
    const zoe_span share = zoe_share(units(n), parts, i);
    const size_t first = UNIT * share.first, count = UNIT * share.count;
    return (zoe_span){first, count < n - first ? count : n - first};
}

/* What a grid is judged by, in this order: less is better, of the last more. */
typedef struct cost {
    size_t largest; /* patch, in latent positions */
    size_t border;  /* length of all lines between patches */
    size_t rows;
} cost;

static cost cost_of(zoe_vae_grid g, size_t h, size_t w)
{
    const size_t rows = zoe_vae_grid_share(h, g.rows, 0).count;
    const size_t columns = zoe_vae_grid_share(w, g.columns, 0).count;
    return (cost){rows * columns, (g.rows - 1) * w + (g.columns - 1) * h, g.rows};
}

static bool better(cost a, cost b)
{
    if (a.largest != b.largest)
        return a.largest < b.largest;
    return a.border != b.border ? a.border < b.border : a.rows > b.rows;
}

zoe_vae_grid zoe_vae_grid_choose(size_t ranks, size_t h, size_t w)
{
    zoe_vae_grid best = {1, 1};
    for (size_t rows = 1; rows <= ranks && rows <= units(h); rows++)
        for (size_t columns = 1; columns <= ranks / rows && columns <= units(w); columns++) {
            const zoe_vae_grid grid = {rows, columns};
            if (better(cost_of(grid, h, w), cost_of(best, h, w)))
                best = grid;
        }
    return best;
}
