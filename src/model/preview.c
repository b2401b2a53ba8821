/* Latent to colours by a linear map: fitting it, using it, keeping it in a file. */
#include "model/preview.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/file.h"
#include "store/store.h"

static const char kind_key[] = "zoetrope";
static const char kind_value[] = "preview factors";

void zoe_projection_apply(const zoe_projection *projection, float *rgb, const float *latent,
                          size_t stride, size_t cells)
{
    for (size_t i = 0; i < cells; i++)
        for (size_t k = 0; k < 3; k++) {
            float sum = projection->bias[k];
            for (size_t c = 0; c < projection->channels; c++)
                sum += projection->weight[k][c] * latent[c * stride + i];
            rgb[3 * i + k] = sum;
        }
}

void zoe_cell_colours(float *rgb, size_t h, size_t w, const float *frame, size_t H, size_t W)
{
    const size_t high = H / h, wide = W / w;
    const double scale = 0.5 / (double)(high * wide);
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++)
            for (size_t k = 0; k < 3; k++) {
                double sum = 0.0;
                for (size_t j = 0; j < high; j++)
                    for (size_t i = 0; i < wide; i++)
                        sum += (double)frame[3 * ((y * high + j) * W + x * wide + i) + k];
                rgb[3 * (y * w + x) + k] = (float)(sum * scale + 0.5);
            }
}

/* ---- fitting ---- */

/* Weight of a squared coefficient against a squared error summed over cells, for colours in 0 to 1
 * and latents of variance about 1: the odds of errors of some 0.1 a cell and coefficients of some
 * 0.1. With thousands of cells it does nothing; with the 64 of a tiny picture it keeps the map from
 * following the noise of 16 channels. On the demo model anything from 0.1 to 10 does as well. */
static const double RIDGE = 1.0;

/* Sums over cells of products of the columns: channels, three colours, 1. */
struct zoe_projection_fit {
    size_t channels, columns, cells;
    double *sums; /* [columns, columns], upper triangle */
};

zoe_status zoe_projection_fit_new(zoe_context *ctx, zoe_projection_fit **fit, size_t channels)
{
    zoe_projection_fit *f = NULL;
    zoe_status status;
    void *p;
    *fit = NULL;
    if (channels == 0 || channels > ZOE_PROJECTION_CHANNELS)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "a preview of %zu latent channels; 1 to %d can be projected", channels,
                        (int)ZOE_PROJECTION_CHANNELS);
    TRY_GOTO(zoe_alloc_zero(ctx, &p, 1, sizeof *f, "preview factors"));
    f = p;
    f->channels = channels;
    f->columns = channels + 4;
    TRY_GOTO(zoe_alloc_zero(ctx, &p, f->columns * f->columns, sizeof *f->sums, "preview factors"));
    f->sums = p;
    *fit = f;
    f = NULL;
done:
    zoe_projection_fit_free(f);
    return status;
}

void zoe_projection_fit_free(zoe_projection_fit *fit)
{
    if (!fit)
        return;
    zoe_free(fit->sums);
    zoe_free(fit);
}

void zoe_projection_fit_add(zoe_projection_fit *fit, const float *latent, size_t stride,
                            const float *rgb, size_t cells)
{
    double row[ZOE_PROJECTION_CHANNELS + 4];
    const size_t z = fit->channels, n = fit->columns;
    for (size_t i = 0; i < cells; i++) {
        for (size_t c = 0; c < z; c++)
            row[c] = (double)latent[c * stride + i];
        for (size_t k = 0; k < 3; k++)
            row[z + k] = (double)rgb[3 * i + k];
        row[z + 3] = 1.0;
        for (size_t a = 0; a < n; a++)
            for (size_t b = a; b < n; b++)
                fit->sums[a * n + b] += row[a] * row[b];
    }
    fit->cells += cells;
}

size_t zoe_projection_fit_cells(const zoe_projection_fit *fit)
{
    return fit->cells;
}

/* Sum over cells of (a - mean a)(b - mean b), a <= b. */
static double centred(const zoe_projection_fit *fit, size_t a, size_t b)
{
    const size_t n = fit->columns;
    const double *s = fit->sums;
    return s[a * n + b] - s[a * n + n - 1] * s[b * n + n - 1] / (double)fit->cells;
}

/* Cholesky: the lower triangle of the ridged, centred products. False if it is not positive, which
 * with the ridge only NaN and inf can bring about. */
static bool factorise(const zoe_projection_fit *fit, double *lower)
{
    const size_t z = fit->channels;
    for (size_t i = 0; i < z; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = centred(fit, j, i) + (i == j ? RIDGE : 0.0);
            for (size_t k = 0; k < j; k++)
                sum -= lower[i * z + k] * lower[j * z + k];
            if (i == j && !(sum > 0.0 && isfinite(sum)))
                return false;
            lower[i * z + j] = i == j ? sqrt(sum) : sum / lower[j * z + j];
        }
    return true;
}

/* x becomes the solution of (lower lower^T) x = x. */
static void substitute(const double *lower, double *x, size_t z)
{
    for (size_t i = 0; i < z; i++) {
        for (size_t k = 0; k < i; k++)
            x[i] -= lower[i * z + k] * x[k];
        x[i] /= lower[i * z + i];
    }
    for (size_t i = z; i-- > 0;) {
        for (size_t k = i + 1; k < z; k++)
            x[i] -= lower[k * z + i] * x[k];
        x[i] /= lower[i * z + i];
    }
}

/* Sum of squared errors of colour k under the coefficients x. */
static double residual(const zoe_projection_fit *fit, size_t k, const double *x)
{
    const size_t z = fit->channels;
    double sum = centred(fit, z + k, z + k);
    for (size_t i = 0; i < z; i++) {
        sum -= 2.0 * x[i] * centred(fit, i, z + k);
        for (size_t j = 0; j < z; j++)
            sum += x[i] * x[j] * centred(fit, i < j ? i : j, i < j ? j : i);
    }
    return sum > 0.0 ? sum : 0.0;
}

zoe_status zoe_projection_fit_solve(zoe_context *ctx, const zoe_projection_fit *fit,
                                    zoe_projection *projection, double *error)
{
    const size_t z = fit->channels, n = fit->columns;
    double x[ZOE_PROJECTION_CHANNELS], squares = 0.0;
    void *p;
    if (fit->cells == 0)
        return zoe_fail(ctx, ZOE_INVALID, "preview factors: no picture to fit them to");
    TRY(zoe_alloc(ctx, &p, z * z, sizeof(double), "preview factors"));
    double *lower = p;
    const bool sound = factorise(fit, lower);
    *projection = (zoe_projection){.channels = z};
    for (size_t k = 0; sound && k < 3; k++) {
        for (size_t c = 0; c < z; c++)
            x[c] = centred(fit, c, z + k);
        substitute(lower, x, z);
        double bias = fit->sums[(z + k) * n + n - 1];
        for (size_t c = 0; c < z; c++) {
            bias -= x[c] * fit->sums[c * n + n - 1];
            projection->weight[k][c] = (float)x[c];
        }
        projection->bias[k] = (float)(bias / (double)fit->cells);
        squares += residual(fit, k, x);
    }
    zoe_free(lower);
    if (!sound || !isfinite(squares))
        return zoe_fail(ctx, ZOE_NONFINITE, "preview factors: NaN or inf in the latents");
    if (error)
        *error = sqrt(squares / (3.0 * (double)fit->cells));
    return ZOE_OK;
}

/* ---- the file ---- */

static json_t *reals(const float *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real((double)values[i]));
    return list;
}

zoe_status zoe_projection_write(zoe_context *ctx, const char *path,
                                const zoe_projection *projection)
{
    zoe_output out;
    const size_t z = projection->channels;
    json_t *root =
        json_pack("{s:s, s:I, s:[o, o, o], s:o}", kind_key, kind_value, "channels", (json_int_t)z,
                  "weight", reals(projection->weight[0], z), reals(projection->weight[1], z),
                  reals(projection->weight[2], z), "bias", reals(projection->bias, 3));
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(root);
    if (!text)
        return zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for the preview factors", path);
    zoe_status status = zoe_output_open(ctx, &out, path);
    if (status == ZOE_OK) {
        status = zoe_output_write(ctx, &out, text, strlen(text));
        if (status == ZOE_OK)
            status = zoe_output_write(ctx, &out, "\n", 1);
        if (status == ZOE_OK)
            status = zoe_output_commit(ctx, &out);
        zoe_output_abort(&out);
    }
    free(text);
    return status;
}

zoe_status zoe_projection_read(zoe_context *ctx, zoe_projection *projection, const char *path,
                               size_t channels)
{
    enum { MOST = 3 * ZOE_PROJECTION_CHANNELS };
    double values[MOST];
    size_t found = 0;
    zoe_config *config;
    zoe_status status;
    TRY(zoe_config_open(ctx, &config, path));
    const char *kind = zoe_config_text(config, kind_key);
    if (!kind || strcmp(kind, kind_value) != 0) {
        status = zoe_fail(ctx, ZOE_FORMAT,
                          "%s: not a file of preview factors; `zoe preview-fit` makes one", path);
        goto done;
    }
    TRY_GOTO(zoe_config_size(ctx, config, "channels", 1, ZOE_PROJECTION_CHANNELS, &found));
    if (found != channels) {
        status = zoe_fail(ctx, ZOE_FORMAT,
                          "%s: preview factors for %zu latent channels, the VAE has %zu; `zoe "
                          "preview-fit` makes those that belong to it",
                          path, found, channels);
        goto done;
    }
    *projection = (zoe_projection){.channels = channels};
    TRY_GOTO(zoe_config_reals(ctx, config, "weight", values, 3, channels));
    for (size_t i = 0; i < 3 * channels; i++)
        projection->weight[i / channels][i % channels] = (float)values[i];
    TRY_GOTO(zoe_config_reals(ctx, config, "bias", values, 1, 3));
    for (size_t k = 0; k < 3; k++)
        projection->bias[k] = (float)values[k];
done:
    zoe_config_close(config);
    return status;
}
