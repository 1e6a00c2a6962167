/* Kernels of exported models, in C99. Each section begins with a line `//: name needs...`, and only the sections that a model needs
   are copied into its file. Tensors are contiguous and in C order; sizes are those of the exported graph. */

//: act
/* an activation over n values, in place */
enum { BM_NONE, BM_RELU, BM_CLIP, BM_HARDSWISH, BM_HARDSIGMOID, BM_SIGMOID, BM_TANH, BM_LEAKY, BM_SWISH };

static void bm_act(float *x, size_t n, int kind, float a, float b) {
    size_t i;
    switch (kind) {
    case BM_RELU: for (i = 0; i < n; i++) x[i] = x[i] < 0.0f ? 0.0f : x[i]; break;
    case BM_CLIP: for (i = 0; i < n; i++) { float v = x[i] < a ? a : x[i]; x[i] = v > b ? b : v; } break;
    case BM_HARDSWISH:
        for (i = 0; i < n; i++) { float v = x[i] / 6.0f + 0.5f; v = v < 0.0f ? 0.0f : v; x[i] *= v > 1.0f ? 1.0f : v; }
        break;
    case BM_HARDSIGMOID:
        for (i = 0; i < n; i++) { float v = a * x[i] + b; v = v < 0.0f ? 0.0f : v; x[i] = v > 1.0f ? 1.0f : v; }
        break;
    case BM_SIGMOID: for (i = 0; i < n; i++) x[i] = 1.0f / (1.0f + expf(-x[i])); break;
    case BM_TANH: for (i = 0; i < n; i++) x[i] = tanhf(x[i]); break;
    case BM_LEAKY: for (i = 0; i < n; i++) x[i] = x[i] < 0.0f ? a * x[i] : x[i]; break;
    case BM_SWISH: for (i = 0; i < n; i++) x[i] = x[i] / (1.0f + expf(-x[i])); break;
    default: break;
    }
}

//: window
typedef struct {
    size_t channels, height, width, filters, kh, kw, oh, ow;
    long sh, sw, ph, pw, dh, dw; /* strides, padding at the top and left, dilations */
} bm_window;

//: contract
/* products and sums in one instruction, where there is one: gcc leaves them apart in C99 unless it is told */
#if defined(__GNUC__) && !defined(__clang__)
#define BM_CONTRACT __attribute__((optimize("fp-contract=fast")))
#else
#define BM_CONTRACT
#endif

//: tile contract
/* products of matrices in tiles of BM_MR rows and BM_NR columns, which stay in registers */
enum { BM_MR = 8, BM_NR = 8, BM_KC = 256, BM_NC = 64 };

/* c[rows, columns] (+)= a[BM_MR, k] b[k, BM_NR], both packed */
BM_CONTRACT static void bm_tile(const float *a, const float *b, size_t k, float *c, size_t ldc, size_t rows, size_t columns,
                                int add) {
    float sum[BM_MR][BM_NR];
    size_t p, i, j;
#if defined(__GNUC__) /* vectors of four, which every compiler that knows them keeps in registers */
    typedef float four __attribute__((vector_size(16)));
    four s[BM_MR][2], x, y;
    memset(s, 0, sizeof s);
    for (p = 0; p < k; p++, a += BM_MR, b += BM_NR) {
        memcpy(&x, b, 16);
        memcpy(&y, b + 4, 16);
#define BM_ROW(i) s[i][0] += a[i] * x; s[i][1] += a[i] * y;
        BM_ROW(0) BM_ROW(1) BM_ROW(2) BM_ROW(3) BM_ROW(4) BM_ROW(5) BM_ROW(6) BM_ROW(7)
#undef BM_ROW
    }
    memcpy(sum, s, sizeof sum);
#else
    memset(sum, 0, sizeof sum);
    for (p = 0; p < k; p++, a += BM_MR, b += BM_NR)
        for (i = 0; i < BM_MR; i++)
            for (j = 0; j < BM_NR; j++) sum[i][j] += a[i] * b[j];
#endif
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) c[i * ldc + j] = add ? c[i * ldc + j] + sum[i][j] : sum[i][j];
}

/* c[m, n] (+)= packed a [m, k] times packed b [k, n] */
static void bm_block(const float *a, const float *b, size_t m, size_t n, size_t k, float *c, size_t ldc, int add) {
    size_t i, j;
    for (i = 0; i < m; i += BM_MR)
        for (j = 0; j < n; j += BM_NR)
            bm_tile(a + i * k, b + j * k, k, c + i * ldc + j, ldc, m - i < BM_MR ? m - i : BM_MR,
                    n - j < BM_NR ? n - j : BM_NR, add);
}

//: pack tile
/* m rows of a block of k columns, by tiles: float [m / BM_MR][k][BM_MR] */
static void bm_pack(const float *a, size_t row, size_t column, size_t m, size_t k, float *to) {
    size_t t, p, i;
    for (t = 0; t < m; t += BM_MR)
        for (p = 0; p < k; p++)
            for (i = 0; i < BM_MR; i++) *to++ = t + i < m ? a[(t + i) * row + p * column] : 0.0f;
}

//: pack_i8 tile
/* the same of integers that stand for value * scale, a scale for each row */
static void bm_pack_i8(const signed char *a, const float *scale, size_t row, size_t m, size_t k, float *to) {
    size_t t, p, i;
    for (t = 0; t < m; t += BM_MR)
        for (p = 0; p < k; p++)
            for (i = 0; i < BM_MR; i++) *to++ = t + i < m ? (float)a[(t + i) * row + p] * scale[t + i] : 0.0f;
}

//: row contract
/* c[n] = a[k] b[k, n], one row */
BM_CONTRACT static void bm_row(const float *a, const float *b, float *c, size_t n, size_t k) {
    size_t p, j, most = k - k % 4;
    memset(c, 0, n * sizeof *c);
    for (p = 0; p < most; p += 4) {
        const float *r = b + p * n;
        for (j = 0; j < n; j++)
            c[j] += (a[p] * r[j] + a[p + 1] * r[n + j]) + (a[p + 2] * r[2 * n + j] + a[p + 3] * r[3 * n + j]);
    }
    for (p = most; p < k; p++)
        for (j = 0; j < n; j++) c[j] += a[p] * b[p * n + j];
}

//: row_i8 contract
/* the same where b is of integers that stand for value * scale, a scale for each column */
BM_CONTRACT static void bm_row_i8(const float *a, const signed char *b, const float *scale, float *c, size_t n, size_t k) {
    size_t p, j, most = k - k % 4;
    memset(c, 0, n * sizeof *c);
    for (p = 0; p < most; p += 4) {
        const signed char *r = b + p * n;
        for (j = 0; j < n; j++)
            c[j] += (a[p] * (float)r[j] + a[p + 1] * (float)r[n + j]) + (a[p + 2] * (float)r[2 * n + j] + a[p + 3] * (float)r[3 * n + j]);
    }
    for (p = most; p < k; p++)
        for (j = 0; j < n; j++) c[j] += a[p] * (float)b[p * n + j];
    for (j = 0; j < n; j++) c[j] *= scale[j];
}

//: row_of_columns contract
/* c[n] = a[k] b[n, k], one row of a matrix whose columns are contiguous */
BM_CONTRACT static void bm_row_of_columns(const float *a, const float *b, float *c, size_t n, size_t k) {
    size_t j, p, i, most = k - k % 8;
    for (j = 0; j < n; j++, b += k) {
        float sum[8] = {0}, all = 0.0f;
        for (p = 0; p < most; p += 8)
            for (i = 0; i < 8; i++) sum[i] += a[p + i] * b[p + i];
        for (p = most; p < k; p++) all += a[p] * b[p];
        for (i = 0; i < 8; i++) all += sum[i];
        c[j] = all;
    }
}

//: matmul pack
/* c[m, n] = a[m, k] b[k, n], rows and columns of a and b at any distance; scratch: m * BM_KC + BM_KC * BM_NC, m rounded up to tiles */
static void bm_matmul(const float *a, size_t ar, size_t ac, const float *b, size_t br, size_t bc, float *c,
                      size_t m, size_t n, size_t k, float *scratch) {
    size_t p, j, t, q, i;
    float *packed = scratch + (m + BM_MR - 1) / BM_MR * BM_MR * BM_KC;
    for (p = 0; p < k; p += BM_KC) {
        size_t depth = k - p < BM_KC ? k - p : BM_KC;
        bm_pack(a + p * ac, ar, ac, m, depth, scratch);
        for (j = 0; j < n; j += BM_NC) {
            size_t wide = n - j < BM_NC ? n - j : BM_NC;
            float *to = packed;
            for (t = 0; t < wide; t += BM_NR)
                for (q = 0; q < depth; q++)
                    for (i = 0; i < BM_NR; i++) *to++ = t + i < wide ? b[(p + q) * br + (j + t + i) * bc] : 0.0f;
            bm_block(scratch, packed, m, wide, depth, c + j, n, p > 0);
        }
    }
}

//: matmul_i8 pack
/* the same where b is of integers that stand for value * scale, a scale for each column */
static void bm_matmul_i8(const float *a, const signed char *b, const float *scale, float *c, size_t m, size_t n, size_t k,
                         float *scratch) {
    size_t p, j, t, q, i;
    float *packed = scratch + (m + BM_MR - 1) / BM_MR * BM_MR * BM_KC;
    for (p = 0; p < k; p += BM_KC) {
        size_t depth = k - p < BM_KC ? k - p : BM_KC;
        bm_pack(a + p, k, 1, m, depth, scratch);
        for (j = 0; j < n; j += BM_NC) {
            size_t wide = n - j < BM_NC ? n - j : BM_NC;
            float *to = packed;
            for (t = 0; t < wide; t += BM_NR)
                for (q = 0; q < depth; q++)
                    for (i = 0; i < BM_NR; i++) *to++ = t + i < wide ? (float)b[(p + q) * n + j + t + i] : 0.0f;
            bm_block(scratch, packed, m, wide, depth, c + j, n, p > 0);
        }
    }
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) c[i * n + j] *= scale[j];
}

//: conv window tile act
/* a block of the matrix of windows: rows p.. of channels * kh * kw, columns j.. of oh * ow, by tiles */
static void bm_windows(const float *x, const bm_window *w, size_t p, size_t depth, size_t j, size_t wide, float *to) {
    size_t t, q, i;
    for (t = 0; t < wide; t += BM_NR) {
        long rows[BM_NR], columns[BM_NR]; /* of the upper left corner of each window */
        size_t kx = p % w->kw, ky = p / w->kw % w->kh;
        const float *plane = x + p / (w->kw * w->kh) * w->height * w->width;
        for (i = 0; i < BM_NR; i++) {
            size_t pixel = j + t + i;
            rows[i] = t + i < wide ? (long)(pixel / w->ow) * w->sh - w->ph : -(1L << 24);
            columns[i] = (long)(pixel % w->ow) * w->sw - w->pw;
        }
        for (q = 0; q < depth; q++) {
            long dy = (long)ky * w->dh, dx = (long)kx * w->dw;
            for (i = 0; i < BM_NR; i++) {
                long row = rows[i] + dy, column = columns[i] + dx;
                int inside = row >= 0 && row < (long)w->height && column >= 0 && column < (long)w->width;
                *to++ = inside ? plane[row * (long)w->width + column] : 0.0f;
            }
            if (++kx == w->kw) {
                kx = 0;
                if (++ky == w->kh) {
                    ky = 0;
                    plane += w->height * w->width;
                }
            }
        }
    }
}

/* the same where a window is one pixel */
static void bm_pixels(const float *x, const bm_window *w, size_t p, size_t depth, size_t j, size_t wide, float *to) {
    size_t t, q, i, plane = w->height * w->width;
    for (t = 0; t < wide; t += BM_NR)
        for (q = 0; q < depth; q++) {
            const float *from = x + (p + q) * plane + j + t;
            if (t + BM_NR <= wide) {
                memcpy(to, from, BM_NR * sizeof *to);
                to += BM_NR;
            } else
                for (i = 0; i < BM_NR; i++) *to++ = t + i < wide ? from[i] : 0.0f;
        }
}

/* one image and one group; packed: the filters by blocks of BM_KC, as bm_filters writes them */
static void bm_conv(const float *x, const float *packed, const float *bias, float *y, const bm_window *w, int kind, float a,
                    float b, float *scratch) {
    size_t k = w->channels * w->kh * w->kw, n = w->oh * w->ow, m = w->filters, j, p, i;
    size_t tiles = (m + BM_MR - 1) / BM_MR * BM_MR;
    int pixels = w->kh == 1 && w->kw == 1 && w->sh == 1 && w->sw == 1 && !w->ph && !w->pw && n == w->height * w->width;
    for (j = 0; j < n; j += BM_NC) {
        size_t wide = n - j < BM_NC ? n - j : BM_NC;
        for (p = 0; p < k; p += BM_KC) {
            size_t depth = k - p < BM_KC ? k - p : BM_KC;
            (pixels ? bm_pixels : bm_windows)(x, w, p, depth, j, wide, scratch);
            bm_block(packed + p * tiles, scratch, m, wide, depth, y + j, n, p > 0);
        }
        for (i = 0; i < m; i++) {
            float *row = y + i * n + j;
            if (bias) for (p = 0; p < wide; p++) row[p] += bias[i];
            bm_act(row, wide, kind, a, b);
        }
    }
}

//: filters pack
static void bm_filters(const float *f, size_t m, size_t k, float *to) {
    size_t p;
    for (p = 0; p < k; p += BM_KC) {
        size_t depth = k - p < BM_KC ? k - p : BM_KC;
        bm_pack(f + p, k, 1, m, depth, to + p * ((m + BM_MR - 1) / BM_MR * BM_MR));
    }
}

//: filters_i8 pack_i8
static void bm_filters_i8(const signed char *f, const float *scale, size_t m, size_t k, float *to) {
    size_t p;
    for (p = 0; p < k; p += BM_KC) {
        size_t depth = k - p < BM_KC ? k - p : BM_KC;
        bm_pack_i8(f + p, scale, k, m, depth, to + p * ((m + BM_MR - 1) / BM_MR * BM_MR));
    }
}

//: taps window contract
/* Filters of one channel each. A plane is copied with its padding, columns by their remainder by the stride, so that those which a
   weight meets in one row lie side by side: [rows][stride][columns], columns being the output's, rounded up to eights, and the filter's. */
static size_t bm_columns(const bm_window *w) {
    return (w->ow + 7) / 8 * 8 + (w->kw - 1) * (size_t)w->dw / (size_t)w->sw;
}

/* y[oh, ow] = start + the sum of weights times what they meet; at: where that is for the first window */
BM_CONTRACT static void bm_taps(const float *plane, const bm_window *w, const float *f, const int32_t *at, float start, float *y) {
    size_t r, i, j, t, taps = w->kh * w->kw, step = (size_t)w->sh * (size_t)w->sw * bm_columns(w);
    for (r = 0; r < w->oh; r += 2) { /* two rows, of which the second may be the first again */
        size_t next = r + 1 < w->oh;
        float *upper = y + r * w->ow, *lower = upper + next * w->ow;
        for (i = 0; i < w->ow; i += 8) {
            const float *from = plane + r * step + i;
            float sum[16];
            size_t wide = w->ow - i < 8 ? w->ow - i : 8;
#if defined(__GNUC__)
            typedef float four __attribute__((vector_size(16)));
            four s0 = {start, start, start, start}, s1 = s0, s2 = s0, s3 = s0, x0, x1, x2, x3;
            for (t = 0; t < taps; t++) {
                const float *to = from + at[t], *below = to + next * step;
                memcpy(&x0, to, 16);
                memcpy(&x1, to + 4, 16);
                memcpy(&x2, below, 16);
                memcpy(&x3, below + 4, 16);
                s0 += f[t] * x0; s1 += f[t] * x1; s2 += f[t] * x2; s3 += f[t] * x3;
            }
            if (wide == 8) {
                memcpy(upper + i, &s0, 16);
                memcpy(upper + i + 4, &s1, 16);
                memcpy(lower + i, &s2, 16);
                memcpy(lower + i + 4, &s3, 16);
                continue;
            }
            memcpy(sum, &s0, 16);
            memcpy(sum + 4, &s1, 16);
            memcpy(sum + 8, &s2, 16);
            memcpy(sum + 12, &s3, 16);
#else
            for (j = 0; j < 16; j++) sum[j] = start;
            for (t = 0; t < taps; t++)
                for (j = 0; j < 8; j++) {
                    sum[j] += f[t] * from[(size_t)at[t] + j];
                    sum[8 + j] += f[t] * from[(size_t)at[t] + next * step + j];
                }
#endif
            for (j = 0; j < wide; j++) {
                upper[i + j] = sum[j];
                lower[i + j] = sum[8 + j];
            }
        }
    }
}

//: depthwise taps act
static void bm_spread(const float *x, const bm_window *w, float *plane) {
    size_t r, columns = bm_columns(w), rows = (w->oh - 1) * (size_t)w->sh + (w->kh - 1) * (size_t)w->dh + 1;
    long q;
    for (r = 0; r < rows; r++, plane += (size_t)w->sw * columns) {
        const float *from;
        if ((long)r < w->ph || (long)r >= w->ph + (long)w->height) continue;
        from = x + ((long)r - w->ph) * (long)w->width;
        for (q = 0; q < w->sw; q++) {
            size_t first = w->pw > q ? (size_t)((w->pw - q + w->sw - 1) / w->sw) : 0, i;
            long shift = q - w->pw, last = ((long)w->width - shift + w->sw - 1) / w->sw;
            float *to = plane + (size_t)q * columns;
            size_t end = last < (long)columns ? (size_t)(last > 0 ? last : 0) : columns;
            if (w->sw == 1)
                for (i = first; i < end; i++) to[i] = from[(long)i + shift];
            else
                for (i = first; i < end; i++) to[i] = from[(long)i * w->sw + shift];
        }
    }
}

/* a filter for each channel; scratch: a plane with its padding */
static void bm_depthwise(const float *x, const float *f, const float *bias, float *y, const bm_window *w, const int32_t *at, size_t size,
                         int kind, float a, float b, float *scratch) {
    size_t c;
    memset(scratch, 0, size * sizeof *scratch);
    for (c = 0; c < w->channels; c++, x += w->height * w->width, f += w->kh * w->kw, y += w->oh * w->ow) {
        bm_spread(x, w, scratch);
        bm_taps(scratch, w, f, at, bias ? bias[c] : 0.0f, y);
        bm_act(y, w->oh * w->ow, kind, a, b);
    }
}

//: conv_transpose
/* each value of x is spread over a window of y; one image */
static void bm_conv_transpose(const float *x, const float *f, const float *bias, float *y, size_t channels, size_t height,
                              size_t width, size_t filters, size_t kh, size_t kw, size_t oh, size_t ow, long sh, long sw,
                              long ph, long pw, long dh, long dw) {
    size_t c, m, r, q, ky, kx, i;
    for (m = 0; m < filters; m++)
        for (i = 0; i < oh * ow; i++) y[m * oh * ow + i] = bias ? bias[m] : 0.0f;
    for (c = 0; c < channels; c++)
        for (m = 0; m < filters; m++)
            for (r = 0; r < height; r++)
                for (ky = 0; ky < kh; ky++) {
                    long row = (long)r * sh - ph + (long)ky * dh;
                    if (row < 0 || row >= (long)oh) continue;
                    for (kx = 0; kx < kw; kx++) {
                        float v = f[((c * filters + m) * kh + ky) * kw + kx];
                        for (q = 0; q < width; q++) {
                            long column = (long)q * sw - pw + (long)kx * dw;
                            if (column >= 0 && column < (long)ow)
                                y[(m * oh + (size_t)row) * ow + (size_t)column] += v * x[(c * height + r) * width + q];
                        }
                    }
                }
}

//: pool
/* the largest value, or the mean, of each window; the mean counts the padding if `all` */
static void bm_pool(const float *x, float *y, size_t planes, size_t height, size_t width, size_t kh, size_t kw, size_t oh,
                    size_t ow, long sh, long sw, long ph, long pw, long dh, long dw, int mean, int all) {
    size_t c, r, q, ky, kx;
    for (c = 0; c < planes; c++, x += height * width)
        for (r = 0; r < oh; r++)
            for (q = 0; q < ow; q++) {
                double sum = 0.0;
                float most = -INFINITY;
                size_t count = 0;
                for (ky = 0; ky < kh; ky++) {
                    long row = (long)r * sh - ph + (long)ky * dh;
                    if (row < 0 || row >= (long)height) continue;
                    for (kx = 0; kx < kw; kx++) {
                        long column = (long)q * sw - pw + (long)kx * dw;
                        float v;
                        if (column < 0 || column >= (long)width) continue;
                        v = x[(size_t)row * width + (size_t)column];
                        sum += v;
                        most = v > most || v != v ? v : most;
                        count++;
                    }
                }
                *y++ = mean ? (float)(sum / (double)(all ? kh * kw : count ? count : 1)) : most;
            }
}

//: softmax
/* along an axis: outer * n * inner values */
static void bm_softmax(const float *x, float *y, size_t outer, size_t n, size_t inner, int logarithm) {
    size_t o, i, q;
    for (o = 0; o < outer; o++)
        for (q = 0; q < inner; q++) {
            const float *from = x + o * n * inner + q;
            float *to = y + o * n * inner + q, most = -INFINITY;
            double sum = 0.0; /* thousands of classes would lose a digit in float */
            for (i = 0; i < n; i++) most = from[i * inner] > most ? from[i * inner] : most;
            for (i = 0; i < n; i++) sum += to[i * inner] = expf(from[i * inner] - most);
            for (i = 0; i < n; i++) to[i * inner] = logarithm ? from[i * inner] - most - (float)log(sum) : to[i * inner] * (float)(1.0 / sum);
        }
}

//: layer_norm
static void bm_layer_norm(const float *x, const float *scale, const float *bias, float *y, size_t rows, size_t n, float eps) {
    size_t r, i;
    for (r = 0; r < rows; r++, x += n, y += n) {
        double mean = 0.0, variance = 0.0;
        float factor;
        for (i = 0; i < n; i++) mean += x[i];
        mean /= (double)n;
        for (i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean);
        factor = (float)(1.0 / sqrt(variance / (double)n + eps));
        for (i = 0; i < n; i++) y[i] = (x[i] - (float)mean) * factor * scale[i] + (bias ? bias[i] : 0.0f);
    }
}

//: resize
/* values at places between pixels: nearest or linear along one axis, `at` and `part` being made at export */
static void bm_resize(const float *x, float *y, size_t outer, size_t n, size_t inner, size_t m, const int *low, const int *high,
                      const float *part) {
    size_t o, i, q;
    for (o = 0; o < outer; o++)
        for (i = 0; i < m; i++)
            for (q = 0; q < inner; q++) {
                float a = x[(o * n + (size_t)low[i]) * inner + q], b = x[(o * n + (size_t)high[i]) * inner + q];
                *y++ = a + (b - a) * part[i];
            }
}

//: gather
/* rows of x along an axis by indices, negative ones from the end; 0 if one is out of range */
static int bm_gather(const void *x, const int64_t *index, void *y, size_t outer, size_t n, size_t inner, size_t count) {
    size_t o, i;
    for (o = 0; o < outer; o++)
        for (i = 0; i < count; i++) {
            int64_t at = index[i] < 0 ? index[i] + (int64_t)n : index[i];
            if (at < 0 || at >= (int64_t)n) return 0;
            memcpy((char *)y + (o * count + i) * inner, (const char *)x + (o * n + (size_t)at) * inner, inner);
        }
    return 1;
}

//: gather_i8
/* rows of a table of integers that stand for value * scale, a scale for each row */
static int bm_gather_i8(const signed char *x, const float *scale, const int64_t *index, float *y, size_t n, size_t inner,
                        size_t count) {
    size_t i, q;
    for (i = 0; i < count; i++) {
        int64_t at = index[i] < 0 ? index[i] + (int64_t)n : index[i];
        if (at < 0 || at >= (int64_t)n) return 0;
        for (q = 0; q < inner; q++) *y++ = (float)x[(size_t)at * inner + q] * scale[at];
    }
    return 1;
}

//: rounded
/* comparisons without branches: gcc keeps them, for machines that stop at what is no number, unless it is told */
#if defined(__GNUC__) && !defined(__clang__)
#define BM_SELECT __attribute__((optimize("no-trapping-math")))
#else
#define BM_SELECT
#endif

/* numbers as integers of 8 bits, halves to even; what is no number as 0 */
BM_SELECT static void bm_rounded(const float *x, signed char *y, size_t n, float scale) {
    size_t i;
    for (i = 0; i < n; i++) {
        float v = x[i] / scale;
        v = v > -128.0f ? v : -128.0f;
        v = v < 127.0f ? v : 127.0f;
        /* the sum has no bits for halves, so it is rounded as every sum is */
        y[i] = (signed char)((int32_t)((v + 12582912.0f) - 12582912.0f) * (x[i] == x[i]));
    }
}

//: dots
/* Products of integers of 8 bits are taken of these where the machine sums such products, else of 16 bits, which every machine does.
   Rows have a multiple of 16 integers, so that compilers need no code for a rest. */
#if defined(__ARM_FEATURE_DOTPROD)
typedef signed char bm_int;
#else
typedef short bm_int;
#endif

static void bm_widened(const signed char *x, size_t n, bm_int *to) {
    size_t i;
    for (i = 0; i < n; i++) to[i] = x[i];
}

/* products of up to four rows of a with n rows of b, all of 16 * blocks integers: sums[rows][n] */
static void bm_dots(const bm_int *a, size_t rows, const bm_int *b, size_t n, size_t blocks, int32_t *sums) {
    size_t j = 0, p, i, k = blocks * 16;
    if (rows == 4)
        for (; j + 2 <= n; j += 2) {
            const bm_int *a0 = a, *a1 = a + k, *a2 = a + 2 * k, *a3 = a + 3 * k, *b0 = b + j * k, *b1 = b0 + k;
            int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
            for (p = 0; p < k; p++) {
                s0 += a0[p] * b0[p]; s1 += a1[p] * b0[p]; s2 += a2[p] * b0[p]; s3 += a3[p] * b0[p];
                t0 += a0[p] * b1[p]; t1 += a1[p] * b1[p]; t2 += a2[p] * b1[p]; t3 += a3[p] * b1[p];
            }
            sums[j] = s0; sums[n + j] = s1; sums[2 * n + j] = s2; sums[3 * n + j] = s3;
            sums[j + 1] = t0; sums[n + j + 1] = t1; sums[2 * n + j + 1] = t2; sums[3 * n + j + 1] = t3;
        }
    for (; j < n; j++)
        for (i = 0; i < rows; i++) {
            int32_t s = 0;
            for (p = 0; p < k; p++) s += a[i * k + p] * b[j * k + p];
            sums[i * n + j] = s;
        }
}

//: conv_i8 window act dots rounded
/* what row p of the matrix of windows has in columns j.. */
static void bm_line(const signed char *x, const bm_window *w, size_t p, size_t j, size_t wide, signed char *to) {
    long dx = (long)(p % w->kw) * w->dw, dy = (long)(p / w->kw % w->kh) * w->dh;
    const signed char *plane = x + p / (w->kw * w->kh) * w->height * w->width;
    size_t t = 0, run, i;
    if (w->kh == 1 && w->kw == 1 && w->sh == 1 && w->sw == 1 && !w->ph && !w->pw && w->oh == w->height && w->ow == w->width) {
        memcpy(to, plane + j, wide);
        return;
    }
    for (; t < wide; t += run) {
        size_t q = (j + t) % w->ow, whole;
        long row = (long)((j + t) / w->ow) * w->sh - w->ph + dy, column = (long)q * w->sw - w->pw + dx;
        const signed char *from = plane;
        run = w->ow - q < wide - t ? w->ow - q : wide - t;
        whole = row < 0 || row >= (long)w->height ? 0 : run;
        if (whole) from += (size_t)row * w->width;
        for (i = 0; i < whole && column < 0; i++, column += w->sw) to[t + i] = 0;
        for (; i < whole && column < (long)w->width; i++, column += w->sw) to[t + i] = from[column];
        for (; i < run; i++) to[t + i] = 0;
    }
}

/* columns j.. of the matrix of windows, each as a row of 16 * blocks integers */
static void bm_lines(const signed char *x, const bm_window *w, size_t j, size_t wide, size_t blocks, bm_int *to) {
    size_t k = w->channels * w->kh * w->kw, p, q, t;
    for (p = 0; p < 16 * blocks; p += 4) { /* four rows are turned at once, to be written as one word of each column */
        signed char lines[4][64];
        bm_int words[64][4];
        for (q = 0; q < 4; q++) {
            if (p + q < k) bm_line(x, w, p + q, j, wide, lines[q]);
            else memset(lines[q], 0, wide);
        }
        for (t = 0; t < wide; t++) {
            words[t][0] = lines[0][t]; words[t][1] = lines[1][t]; words[t][2] = lines[2][t]; words[t][3] = lines[3][t];
        }
        for (t = 0; t < wide; t++) memcpy(to + t * 16 * blocks + p, words[t], sizeof words[t]);
    }
}

/* one image and one group of integers, filters of 16 * blocks; the results are numbers, or integers if `rounded` is not 0: the scale of
   these. scratch: 64 windows and four filters */
static void bm_conv_i8(const signed char *x, const signed char *f, const float *scale, const float *bias, void *y,
                       const bm_window *w, int kind, float a, float b, float rounded, bm_int *scratch) {
    size_t blocks = (w->channels * w->kh * w->kw + 15) / 16, n = w->oh * w->ow, i, j, t, r;
    bm_int *wide_filters = scratch + 64 * 16 * blocks;
    for (j = 0; j < n; j += 64) {
        size_t wide = n - j < 64 ? n - j : 64;
        bm_lines(x, w, j, wide, blocks, scratch);
        for (i = 0; i < w->filters; i += 4) {
            int32_t sums[4 * 64];
            float numbers[64];
            size_t rows = w->filters - i < 4 ? w->filters - i : 4;
            bm_widened(f + i * 16 * blocks, rows * 16 * blocks, wide_filters);
            bm_dots(wide_filters, rows, scratch, wide, blocks, sums);
            for (r = 0; r < rows; r++) {
                for (t = 0; t < wide; t++)
                    numbers[t] = (float)sums[r * wide + t] * scale[i + r] + (bias ? bias[i + r] : 0.0f);
                bm_act(numbers, wide, kind, a, b);
                if (rounded != 0.0f)
                    bm_rounded(numbers, (signed char *)y + (i + r) * n + j, wide, rounded);
                else
                    memcpy((float *)y + (i + r) * n + j, numbers, wide * sizeof *numbers);
            }
        }
    }
}

//: depthwise_i8 taps act rounded
static void bm_spread_i8(const signed char *x, const bm_window *w, float *plane) {
    size_t r, columns = bm_columns(w), rows = (w->oh - 1) * (size_t)w->sh + (w->kh - 1) * (size_t)w->dh + 1;
    long q;
    for (r = 0; r < rows; r++, plane += (size_t)w->sw * columns) {
        const signed char *from;
        if ((long)r < w->ph || (long)r >= w->ph + (long)w->height) continue;
        from = x + ((long)r - w->ph) * (long)w->width;
        for (q = 0; q < w->sw; q++) {
            size_t first = w->pw > q ? (size_t)((w->pw - q + w->sw - 1) / w->sw) : 0, i;
            long shift = q - w->pw, last = ((long)w->width - shift + w->sw - 1) / w->sw;
            float *to = plane + (size_t)q * columns;
            size_t end = last < (long)columns ? (size_t)(last > 0 ? last : 0) : columns;
            if (w->sw == 1)
                for (i = first; i < end; i++) to[i] = from[(long)i + shift];
            else
                for (i = first; i < end; i++) to[i] = from[(long)i * w->sw + shift];
        }
    }
}

/* a filter of integers for each channel. Sums of up to 1,024 products are whole numbers below 2^24, so they are the same in float;
   scratch: a plane with its padding, the results of one, and the weights of one */
static void bm_depthwise_i8(const signed char *x, const signed char *f, const float *scale, const float *bias, void *y,
                            const bm_window *w, const int32_t *at, size_t size, int kind, float a, float b, float rounded,
                            float *scratch) {
    size_t c, i, n = w->oh * w->ow, taps = w->kh * w->kw;
    float *numbers = scratch + size, *weights = numbers + n;
    memset(scratch, 0, size * sizeof *scratch);
    for (c = 0; c < w->channels; c++, x += w->height * w->width, f += taps) {
        for (i = 0; i < taps; i++) weights[i] = f[i];
        bm_spread_i8(x, w, scratch);
        bm_taps(scratch, w, weights, at, 0.0f, numbers);
        for (i = 0; i < n; i++) numbers[i] = numbers[i] * scale[c] + (bias ? bias[c] : 0.0f);
        bm_act(numbers, n, kind, a, b);
        if (rounded != 0.0f)
            bm_rounded(numbers, (signed char *)y + c * n, n, rounded);
        else
            memcpy((float *)y + c * n, numbers, n * sizeof *numbers);
    }
}

//: matmul_of_integers act dots rounded
/* y[m, n] = x[m, k] f[n, 16 * blocks], of integers; scratch: m * n numbers, 4 * m sums, and m + 4 rows of 16 * blocks integers */
static void bm_matmul_of_integers(const signed char *x, const signed char *f, const float *scale, const float *bias, void *y,
                                  size_t m, size_t n, size_t k, int kind, float a, float b, float rounded, float *scratch) {
    size_t i, j, r, blocks = (k + 15) / 16;
    int32_t *sums = (int32_t *)(void *)(scratch + m * n);
    bm_int *rows_of_x = (bm_int *)(void *)(sums + 4 * m), *wide_filters = rows_of_x + m * 16 * blocks;
    float *to = rounded != 0.0f ? scratch : (float *)y;
    for (i = 0; i < m; i++) {
        bm_widened(x + i * k, k, rows_of_x + i * 16 * blocks);
        memset(rows_of_x + i * 16 * blocks + k, 0, (16 * blocks - k) * sizeof *rows_of_x);
    }
    for (j = 0; j < n; j += 4) {
        size_t rows = n - j < 4 ? n - j : 4;
        bm_widened(f + j * 16 * blocks, rows * 16 * blocks, wide_filters);
        bm_dots(wide_filters, rows, rows_of_x, m, blocks, sums);
        for (r = 0; r < rows; r++)
            for (i = 0; i < m; i++) to[i * n + j + r] = (float)sums[r * m + i] * scale[j + r] + (bias ? bias[j + r] : 0.0f);
    }
    bm_act(to, m * n, kind, a, b);
    if (rounded != 0.0f) bm_rounded(to, (signed char *)y, m * n, rounded);
}

//: pool_i8
/* the largest integer of each window */
static void bm_pool_i8(const signed char *x, signed char *y, size_t planes, size_t height, size_t width, size_t kh, size_t kw,
                       size_t oh, size_t ow, long sh, long sw, long ph, long pw, long dh, long dw) {
    size_t c, r, q, ky, kx;
    for (c = 0; c < planes; c++, x += height * width)
        for (r = 0; r < oh; r++)
            for (q = 0; q < ow; q++) {
                signed char most = -128;
                for (ky = 0; ky < kh; ky++)
                    for (kx = 0; kx < kw; kx++) {
                        long row = (long)r * sh - ph + (long)ky * dh, column = (long)q * sw - pw + (long)kx * dw;
                        if (row < 0 || row >= (long)height || column < 0 || column >= (long)width) continue;
                        if (x[(size_t)row * width + (size_t)column] > most) most = x[(size_t)row * width + (size_t)column];
                    }
                *y++ = most;
            }
}

//: recurrent matmul act row_of_columns
/* one direction of a recurrent layer over x[steps, batch, inputs]: GRU (gates update, reset, new), LSTM (input, output, forget, new) or
   plain; f[gates * units, inputs], r[gates * units, units], bias: two of [gates * units] or NULL, h and c: the states, which stay.
   y[steps, batch, units] has `stride` numbers between steps. scratch: steps * batch * gates * units, gates * units, and the product's */
enum { BM_PLAIN = 1, BM_GRU = 3, BM_LSTM = 4 };

static void bm_recurrent(const float *x, const float *f, const float *r, const float *bias, float *h, float *c, float *y,
                         size_t stride, size_t steps, size_t batch, size_t inputs, size_t units, int kind, int after, int reverse,
                         const int32_t *lengths, int act, float *scratch) {
    size_t wide = (size_t)kind * units, s, n, i;
    float *all = scratch, *own = all + steps * batch * wide, *part = own + wide;
    bm_matmul(x, inputs, 1, f, 1, inputs, all, steps * batch, wide, inputs, part);
    for (n = 0; n < batch; n++) {
        size_t length = lengths ? (size_t)lengths[n] : steps;
        float *state = h + n * units;
        for (s = length; s < steps; s++) memset(y + s * stride + n * units, 0, units * sizeof *y);
        for (s = 0; s < length; s++) {
            size_t at = reverse ? length - 1 - s : s;
            float *g = all + (at * batch + n) * wide;
            if (bias) for (i = 0; i < wide; i++) g[i] += bias[i];
            if (kind == BM_GRU) {
                bm_row_of_columns(state, r, own, 2 * units, units);
                for (i = 0; i < 2 * units; i++) g[i] += own[i] + (bias ? bias[wide + i] : 0.0f);
                bm_act(g, 2 * units, BM_SIGMOID, 0.0f, 0.0f);
                if (after) {
                    bm_row_of_columns(state, r + 2 * units * units, own, units, units);
                    for (i = 0; i < units; i++)
                        g[2 * units + i] += g[units + i] * (own[i] + (bias ? bias[wide + 2 * units + i] : 0.0f));
                } else {
                    for (i = 0; i < units; i++) g[units + i] *= state[i];
                    bm_row_of_columns(g + units, r + 2 * units * units, own, units, units);
                    for (i = 0; i < units; i++) g[2 * units + i] += own[i] + (bias ? bias[wide + 2 * units + i] : 0.0f);
                }
                bm_act(g + 2 * units, units, BM_TANH, 0.0f, 0.0f);
                for (i = 0; i < units; i++) state[i] = g[2 * units + i] + g[i] * (state[i] - g[2 * units + i]);
            } else {
                bm_row_of_columns(state, r, own, wide, units);
                for (i = 0; i < wide; i++) g[i] += own[i] + (bias ? bias[wide + i] : 0.0f);
                if (kind == BM_LSTM) {
                    bm_act(g, 3 * units, BM_SIGMOID, 0.0f, 0.0f);
                    bm_act(g + 3 * units, units, BM_TANH, 0.0f, 0.0f);
                    for (i = 0; i < units; i++) {
                        c[n * units + i] = g[2 * units + i] * c[n * units + i] + g[i] * g[3 * units + i];
                        state[i] = g[units + i] * tanhf(c[n * units + i]);
                    }
                } else {
                    bm_act(g, units, act, 0.0f, 0.0f);
                    memcpy(state, g, units * sizeof *g);
                }
            }
            memcpy(y + at * stride + n * units, state, units * sizeof *y);
        }
    }
}
