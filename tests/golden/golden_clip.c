/* golden_clip DIR: the CLIP image tower. DIR holds model.safetensors (names of transformers or of
 * open-clip) and io.safetensors with in.picture [3, side, side] in [-1, 1] and out [tokens, dim]. */
#include "golden.h"

#include "model/model.h"

static const double limit = 5e-6;

int main(int argc, char **argv)
{
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    zoe_store *weights, *io;
    zoe_clip *clip;
    void *p;
    size_t n, wanted;
    golden_must(
        &g, zoe_store_open(g.ctx, &weights, golden_path(dir, "model.safetensors"), ZOE_NAMES_CLIP),
        dir);
    golden_must(&g,
                zoe_store_open(g.ctx, &io, golden_path(dir, "io.safetensors"), ZOE_NAMES_AS_STORED),
                dir);
    golden_must(&g, zoe_clip_open(g.ctx, &clip, weights), dir);
    float *picture = golden_load(&g, io, "in.picture", &n),
          *want = golden_load(&g, io, "out", &wanted);
    const size_t side = zoe_clip_side(clip), count = zoe_clip_tokens(clip) * zoe_clip_dim(clip);
    golden_check(&g, "sizes", n == 3 * side * side && wanted == count,
                 "picture of %zu values, %zu features", n, wanted);
    golden_must(&g, zoe_alloc(g.ctx, &p, count, sizeof(float), "features"), dir);
    if (n == 3 * side * side && wanted == count) {
        golden_must(&g, zoe_clip_encode(g.ctx, clip, p, picture), dir);
        golden_compare(&g, "out", p, want, count, limit);
    }
    zoe_free(p);
    zoe_free(picture);
    zoe_free(want);
    zoe_clip_close(clip);
    zoe_store_close(io);
    zoe_store_close(weights);
    return golden_end(&g);
}
