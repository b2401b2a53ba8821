/* Polynomials of one variable by least squares. */
#ifndef ZOE_SAMPLE_POLYNOMIAL_H
#define ZOE_SAMPLE_POLYNOMIAL_H

#include "base/base.h"

enum { ZOE_POLYNOMIAL_TERMS = 8 }; /* at most */

/* How well y is met, by the coefficients as they are given. */
typedef struct zoe_polynomial_fit {
    size_t n;
    double low, high; /* range of x: outside of it the polynomial says nothing */
    double rmse;
    double r2; /* 1 - sum of squared errors / that of y's distances from its mean; 1 if y is
                  constant */
} zoe_polynomial_fit;

/* Highest power first, as TeaCache has them. */
double zoe_polynomial_at(const double *coefficients, size_t terms, double x);

/* The polynomial of `terms` coefficients with the least sum of squared distances from the n points,
 * by a QR decomposition in Chebyshev polynomials over the range of x. `what` and the numbers' kind
 * are named in errors.
 *
 * Errors: ZOE_INVALID: terms is 0 or too many; a value is not finite; fewer than `terms` different
 * x, as far as they differ by more than a millionth of their range; a range of less than a hundredth
 * of the largest x, in which powers of x cannot tell points apart. ZOE_NOMEM. */
zoe_status zoe_polynomial_by_squares(zoe_context *ctx, double *coefficients, size_t terms,
                                     const double *x, const double *y, size_t n, const char *what,
                                     zoe_polynomial_fit *fit);

#endif
