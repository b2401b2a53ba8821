/* Least squares by Householder's reflections. Chebyshev polynomials of t in [-1, 1] are nearly
 * orthogonal, so that the decomposition is well conditioned; powers of x come at the end. */
#include "sample/polynomial.h"

#include <stdlib.h>

double zoe_polynomial_at(const double *coefficients, size_t terms, double x)
{
    double y = 0.0;
    for (size_t i = 0; i < terms; i++)
        y = y * x + coefficients[i];
    return y;
}

/* ---- what can be fitted ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x. */
static size_t count_different(double *x, size_t n)
{
    size_t count = 1, last = 0;
    qsort(x, n, sizeof *x, by_value);
    const double least = 1e-6 * (x[n - 1] - x[0]);
    for (size_t i = 1; i < n; i++)
        if (x[i] - x[last] > least) {
            count++;
            last = i;
        }
    return count;
}

static zoe_status check(zoe_context *ctx, double *sorted, size_t terms, const double *x,
                        const double *y, size_t n, const char *what)
{
    if (terms == 0 || terms > ZOE_POLYNOMIAL_TERMS)
        return zoe_fail(ctx, ZOE_INVALID, "%s: a polynomial of %zu terms; wanted are 1 to %d", what,
                        terms, ZOE_POLYNOMIAL_TERMS);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || !isfinite(y[i]))
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: point %zu of %zu is (%g, %g), which is not finite", what, i + 1, n,
                            x[i], y[i]);
    memcpy(sorted, x, n * sizeof *x);
    const size_t different = n > 0 ? count_different(sorted, n) : 0;
    if (different < terms)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: only %zu different values among %zu points; a polynomial of degree "
                        "%zu needs %zu or more",
                        what, different, n, terms - 1, terms);
    const double largest = fmax(fabs(sorted[0]), fabs(sorted[n - 1]));
    if (terms > 1 && sorted[n - 1] - sorted[0] < 0.01 * largest)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: all values lie between %g and %g, which is too nearly constant for a "
                        "polynomial of degree %zu",
                        what, sorted[0], sorted[n - 1], terms - 1);
    return ZOE_OK;
}

/* ---- the decomposition ---- */

/* Rows of `terms` values, then y: the right side. */
static void fill(double *a, size_t terms, const double *x, const double *y, size_t n, double centre,
                 double half)
{
    for (size_t i = 0; i < n; i++) {
        double *row = a + i * (terms + 1);
        const double t = (x[i] - centre) / half;
        for (size_t k = 0; k < terms; k++)
            row[k] = k == 0 ? 1.0 : k == 1 ? t : 2.0 * t * row[k - 1] - row[k - 2];
        row[terms] = y[i];
    }
}

/* Reflects column k onto its diagonal, and the columns right of it with it. False: it is in the
 * space of those before it. */
static bool reflect(double *a, size_t terms, size_t n, size_t k)
{
    const size_t wide = terms + 1;
    double norm = 0.0;
    for (size_t i = k; i < n; i++)
        norm += a[i * wide + k] * a[i * wide + k];
    norm = sqrt(norm);
    if (norm < 1e-10 * sqrt((double)n))
        return false;
    const double diagonal = a[k * wide + k] > 0.0 ? -norm : norm;
    const double head = a[k * wide + k] - diagonal;
    const double divisor = -diagonal * head; /* half of |v|^2 */
    a[k * wide + k] = head;
    for (size_t j = k + 1; j < wide; j++) {
        double product = 0.0;
        for (size_t i = k; i < n; i++)
            product += a[i * wide + k] * a[i * wide + j];
        for (size_t i = k; i < n; i++)
            a[i * wide + j] -= product / divisor * a[i * wide + k];
    }
    a[k * wide + k] = diagonal;
    return true;
}

/* b of sum b[k] T_k(t). False: the columns are not independent. */
static bool solve(double *b, double *a, size_t terms, size_t n)
{
    const size_t wide = terms + 1;
    for (size_t k = 0; k < terms; k++)
        if (!reflect(a, terms, n, k))
            return false;
    for (size_t k = terms; k-- > 0;) {
        double sum = a[k * wide + terms];
        for (size_t j = k + 1; j < terms; j++)
            sum -= a[k * wide + j] * b[j];
        b[k] = sum / a[k * wide + k];
    }
    return true;
}

/* ---- from Chebyshev polynomials of t = (x - centre) / half to powers of x ---- */

/* p := p (x - centre) / half 2 - q; lowest power first */
static void clenshaw_step(double *p, double *q, double centre, double half, double factor)
{
    double next[ZOE_POLYNOMIAL_TERMS];
    for (size_t i = 0; i < ZOE_POLYNOMIAL_TERMS; i++)
        next[i] = factor / half * ((i > 0 ? p[i - 1] : 0.0) - centre * p[i]) - q[i];
    memcpy(q, p, sizeof next);
    memcpy(p, next, sizeof next);
}

/* Clenshaw's recurrence, with polynomials in the place of numbers. */
static void to_powers(double *coefficients, const double *b, size_t terms, double centre,
                      double half)
{
    double p[ZOE_POLYNOMIAL_TERMS] = {0.0}, q[ZOE_POLYNOMIAL_TERMS] = {0.0};
    for (size_t k = terms; k-- > 0;) {
        clenshaw_step(p, q, centre, half, k > 0 ? 2.0 : 1.0);
        p[0] += b[k];
    }
    for (size_t k = 0; k < terms; k++)
        coefficients[k] = p[terms - 1 - k];
}

static void judge(zoe_polynomial_fit *fit, const double *coefficients, size_t terms,
                  const double *x, const double *y, size_t n)
{
    double mean = 0.0, errors = 0.0, spread = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += y[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        const double error = zoe_polynomial_at(coefficients, terms, x[i]) - y[i];
        errors += error * error;
        spread += (y[i] - mean) * (y[i] - mean);
    }
    fit->n = n;
    fit->rmse = sqrt(errors / (double)n);
    fit->r2 = spread > 0.0 ? 1.0 - errors / spread : 1.0;
}

zoe_status zoe_polynomial_by_squares(zoe_context *ctx, double *coefficients, size_t terms,
                                     const double *x, const double *y, size_t n, const char *what,
                                     zoe_polynomial_fit *fit)
{
    const size_t extents[] = {n, ZOE_POLYNOMIAL_TERMS + 1};
    size_t count;
    double b[ZOE_POLYNOMIAL_TERMS];
    void *p = NULL;
    zoe_status status;
    *fit = (zoe_polynomial_fit){0};
    if (!zoe_size_product(&count, extents, 2))
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu points are too many", what, n);
    TRY(zoe_alloc(ctx, &p, count, sizeof(double), "least squares"));
    double *a = p;
    TRY_GOTO(check(ctx, a, terms, x, y, n, what));
    fit->low = a[0]; /* sorted by the check */
    fit->high = a[n - 1];
    const double centre = (fit->low + fit->high) / 2.0;
    const double half = fit->high > fit->low ? (fit->high - fit->low) / 2.0 : 1.0;
    fill(a, terms, x, y, n, centre, half);
    if (!solve(b, a, terms, n)) {
        status =
            zoe_fail(ctx, ZOE_INVALID, "%s: the %zu points do not tell a polynomial of degree %zu",
                     what, n, terms - 1);
        goto done;
    }
    to_powers(coefficients, b, terms, centre, half);
    judge(fit, coefficients, terms, x, y, n);
done:
    zoe_free(p);
    return status;
}
