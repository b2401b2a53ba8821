/* golden_vae_grid DIR, or the file in it: how frames are cut for ranks.
 *
 * DIR/vae_grid.json   grids: the reference's rows and columns for P ranks, and whether they are P
 *                     patches; splits: patches [row, column, height, width] of an H x W frame, in
 *                     the order of ranks
 *
 * Ours are cut between pairs of positions, so that a frame of twice the size has twice these patches.
 * Which grid is chosen differs: ours must be no worse, and there for every P. */
#include <jansson.h>

#include "golden.h"
#include "model/model.h"

static size_t count_of(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static size_t at(const json_t *list, size_t i)
{
    return (size_t)json_integer_value(json_array_get(list, i));
}

static void check_split(golden *g, const json_t *object)
{
    const size_t H = count_of(object, "H"), W = count_of(object, "W");
    const zoe_vae_grid grid = {count_of(object, "h_split"), count_of(object, "w_split")};
    const json_t *patches = json_object_get(object, "patches"), *patch;
    size_t i, wrong = json_array_size(patches) != grid.rows * grid.columns;
    json_array_foreach(patches, i, patch)
    {
        const zoe_span rows = zoe_vae_grid_share(2 * H, grid.rows, i / grid.columns);
        const zoe_span columns = zoe_vae_grid_share(2 * W, grid.columns, i % grid.columns);
        wrong += rows.first != 2 * at(patch, 0) || columns.first != 2 * at(patch, 1) ||
                 rows.count != 2 * at(patch, 2) || columns.count != 2 * at(patch, 3);
    }
    golden_check(g, "split", wrong == 0, "%zu x %zu as %zu x %zu: %zu wrong", H, W, grid.rows,
                 grid.columns, wrong);
}

static size_t largest(zoe_vae_grid grid, size_t h, size_t w)
{
    return zoe_vae_grid_share(h, grid.rows, 0).count * zoe_vae_grid_share(w, grid.columns, 0).count;
}

static void check_grid(golden *g, const json_t *object)
{
    enum { HEIGHT = 90, WIDTH = 160 }; /* of the latent of 720p */
    const size_t P = count_of(object, "P");
    const zoe_vae_grid ours = zoe_vae_grid_choose(P, HEIGHT, WIDTH);
    const zoe_vae_grid theirs = {count_of(object, "h_split"), count_of(object, "w_split")};
    const bool right = ours.rows * ours.columns >= 1 && ours.rows * ours.columns <= P &&
                       largest(ours, HEIGHT, WIDTH) <= largest(theirs, HEIGHT, WIDTH);
    golden_check(g, "grid", right, "%zu ranks: %zu x %zu, reference %zu x %zu", P, ours.rows,
                 ours.columns, theirs.rows, theirs.columns);
}

int main(int argc, char **argv)
{
    golden g = golden_begin();
    const char *path = golden_folder(argc, argv);
    if (!golden_ends_with(path, ".json"))
        path = golden_path(path, "vae_grid.json");
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error), *object;
    size_t i;
    if (!json_is_object(all))
        golden_check(&g, path, false, "%s", all ? "no object" : error.text);
    json_array_foreach(json_object_get(all, "splits"), i, object) check_split(&g, object);
    json_array_foreach(json_object_get(all, "grids"), i, object) check_grid(&g, object);
    json_decref(all);
    return golden_end(&g);
}
