// Running error analysis: a reference in float64 that knows how wrong float32 may be. Parts of
// kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr double kRoundoff = 0x1p-24;  // of one float32 operation, relative to its result
// What bodies/math.inl and bodies/normal_tail_*.inl promise: relative of 2^x, absolute of the
// normal distribution's tail. 2^x may stop at 2^-125.
constexpr double kExp2Error = 2e-7, kTailError = 2e-7, kSmallestExp2 = 0x1p-125;

// An exact result, and the largest distance from it that float32 operations may end at, whatever
// their order and whether or not products are rounded before they are added. Bounds are worst
// cases: no luck is needed to keep them. Nothing here is so small that float32 loses bits of it.
struct Number {
  double value = 0.0, error = 0.0;
};
using Numbers = std::vector<Number>;

Number exact(double value) { return {value, 0.0}; }

// After one operation whose operands put the result `error` off.
Number rounded(double value, double error) {
  return {value, error + kRoundoff * (std::abs(value) + error)};
}

Number operator+(Number a, Number b) { return rounded(a.value + b.value, a.error + b.error); }
Number operator-(Number a, Number b) { return rounded(a.value - b.value, a.error + b.error); }
Number operator*(Number a, Number b) {
  return rounded(a.value * b.value,
                 std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error);
}
Number operator/(Number a, Number b) {
  const double quotient = a.value / b.value;
  return rounded(quotient,
                 (a.error + std::abs(quotient) * b.error) / (std::abs(b.value) - b.error));
}
// Of a positive number.
Number sqrt(Number a) {
  const double root = std::sqrt(a.value);
  return rounded(root, root - std::sqrt(std::max(0.0, a.value - a.error)));
}

// k roundings one after the other are gamma(k) of the result at most.
double gamma(std::int64_t k) {
  const double all = kRoundoff * static_cast<double>(k);
  return all / (1.0 - all);
}

// A sum in any order: no term meets more than n - 1 additions.
Number sum(const Numbers& terms) {
  double value = 0.0, error = 0.0, magnitude = 0.0;
  for (const Number& x : terms) {
    value += x.value;
    error += x.error;
    magnitude += std::abs(x.value) + x.error;
  }
  const auto n = static_cast<std::int64_t>(terms.size());
  return {value, error + gamma(std::max<std::int64_t>(n - 1, 0)) * magnitude};
}

// Sum of k products of exact numbers: each meets one rounding of its own and k - 1 additions.
template <class Product>
Number sum_of_products(std::int64_t k, Product product) {
  double value = 0.0, magnitude = 0.0;
  for (std::int64_t p = 0; p < k; ++p) {
    const double x = product(p);
    value += x;
    magnitude += std::abs(x);
  }
  return {value, gamma(k) * magnitude};
}

Number exp2(Number x) {
  const double value = std::exp2(x.value), shifted = std::expm1(std::log(2.0) * x.error);
  return {value, value * (shifted * (1.0 + kExp2Error) + kExp2Error) + kSmallestExp2};
}
// As 2^(x log2(e)), with that constant as a float32.
Number exp(Number x) {
  const double log2_e = 1.0 / std::log(2.0);
  return exp2(x * Number{log2_e, kRoundoff * log2_e});
}

// max(x, 0) - |x| tail(|x|); the slope of GELU is 1.13 at most.
Number gelu(Number x) {
  const double size = std::abs(x.value), tail = 0.5 * std::erfc(size / std::sqrt(2.0));
  const Number subtracted = rounded(size * tail, size * kTailError);
  const double value = std::max(x.value, 0.0) - subtracted.value;
  return rounded(value, 1.13 * x.error + subtracted.error);
}

Number relu(Number x) { return {std::max(x.value, 0.0), x.error}; }

}  // namespace
