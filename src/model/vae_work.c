/* Wan VAE: how much there is to compute. */
#include "model/vae.h"

/* Where a walk through the layers is, and what it has counted. */
typedef struct tally {
    double frames, rows, columns; /* of the layer's input */
    double work;
} tally;

/* Of a kernel with so many places, for every position of frames. */
static void add(tally *t, double frames, double places, size_t in, size_t out)
{
    t->work += 2.0 * frames * t->rows * t->columns * places * (double)in * (double)out;
}

static void scale_sides(tally *t, double by)
{
    t->rows *= by;
    t->columns *= by;
}

/* The first frame goes past what makes or takes frames. */
static void add_down(tally *t, const vae_layer *y)
{
    scale_sides(t, 0.5);
    add(t, t->frames, 9, y->in, y->out);
    if (y->kind != VAE_DOWN3D)
        return;
    t->frames = (t->frames + 1) / 2;
    add(t, t->frames - 1, 3, y->out, y->out);
}

static void add_up(tally *t, const vae_layer *y)
{
    if (y->kind == VAE_UP3D) {
        add(t, t->frames - 1, 3, y->in, 2 * y->in);
        t->frames = 2 * t->frames - 1;
    }
    scale_sides(t, 2);
    add(t, t->frames, 9, y->in, y->out);
}

static void add_layer(tally *t, const vae_layer *y)
{
    switch (y->kind) {
    case VAE_CONV:
    case VAE_HEAD: add(t, t->frames, 27, y->in, y->out); break;
    case VAE_RESIDUAL:
        add(t, t->frames, 27, y->in, y->out);
        add(t, t->frames, 27, y->out, y->out);
        if (y->in != y->out)
            add(t, t->frames, 1, y->in, y->out);
        break;
    case VAE_ATTENTION:
        add(t, t->frames, 4, y->in, y->in);
        add(t, t->frames, 2 * t->rows * t->columns, y->in, 1);
        break;
    case VAE_DOWN2D:
    case VAE_DOWN3D: add_down(t, y); break;
    case VAE_UP2D:
    case VAE_UP3D: add_up(t, y); break;
    case VAE_LEVEL:
    case VAE_LEVEL_END: break;
    }
}

double zoe_vae_work(const zoe_vae *vae, bool encode, size_t F, size_t H, size_t W)
{
    const vae_net *net = encode ? &vae->encoder : &vae->decoder;
    const double side = (double)(encode ? vae->form->patch : vae->form->stride);
    tally t = {.frames = encode ? (double)F : (double)((F + 3) / 4),
               .rows = (double)H / side,
               .columns = (double)W / side};
    for (size_t i = 0; i < net->count; i++)
        add_layer(&t, &net->layers[i]);
    return t.work;
}
