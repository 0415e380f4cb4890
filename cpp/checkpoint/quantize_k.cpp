#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/quantize.h"
#include "core/half.h"

// Q2_K to Q6_K: 256 numbers in parts of 16 or 32. A number is d * scale * q - dmin * minimum, with
// whole scale, minimum and q; Q3_K and Q6_K have signed scales and q, and no minima.

namespace sam_rlx {
namespace {

constexpr int kBlock = 256, kMaxParts = 16;

// What the bits of a format allow.
struct LevelRange {
  int parts;
  int q_lowest, q_highest;
  int scale_lowest, scale_highest;
  int minimum_highest;  // 0: no minima

  int length() const { return kBlock / parts; }
};

constexpr LevelRange range_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::kQ2_K:
      return {16, 0, 3, 0, 15, 15};
    case BlockFormat::kQ3_K:
      return {16, -4, 3, -32, 31, 0};
    case BlockFormat::kQ4_K:
      return {8, 0, 15, 0, 63, 63};
    case BlockFormat::kQ5_K:
      return {8, 0, 31, 0, 63, 63};
    default:
      return {16, -32, 31, -128, 127, 0};
  }
}

// Part of a block as floats: scale * q - minimum.
struct Fit {
  float scale = 0.0F;
  float minimum = 0.0F;
};

// Sums over a part: what least squares needs.
struct Sums {
  float error = 0.0F;
  float q = 0.0F, qq = 0.0F, xq = 0.0F;
};

float nearest(float value) noexcept {  // of magnitudes below 2^22
  constexpr float kWhole = 12582912.0F;
  return (value + kWhole) - kWhole;
}

float level(float x, const Fit& fit, float inverse_scale, float lowest, float highest) noexcept {
  return nearest(std::clamp((x + fit.minimum) * inverse_scale, lowest, highest));
}

float inverse_of(float scale) noexcept {
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

// Rounds a part to the levels of `fit`.
Sums round_part(std::span<const float> x, const Fit& fit, int lowest, int highest) noexcept {
  constexpr int kLanes = 4;
  const float inverse = inverse_of(fit.scale);
  const auto low = static_cast<float>(lowest), high = static_cast<float>(highest);
  float error[kLanes] = {}, sum[kLanes] = {}, squares[kLanes] = {}, products[kLanes] = {};
  for (std::size_t j = 0; j < x.size(); j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[j + lane];
      const float q = level(value, fit, inverse, low, high);
      const float rest = value - (fit.scale * q - fit.minimum);
      error[lane] += rest * rest;
      sum[lane] += q;
      squares[lane] += q * q;
      products[lane] += value * q;
    }
  }
  const auto total = [](const float* lanes) {
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  };
  return {total(error), total(sum), total(squares), total(products)};
}

float sum_of(std::span<const float> x) noexcept {
  float sum = 0.0F;
  for (const float value : x) sum += value;
  return sum;
}

// The best scale, and minimum if there is one, for the levels that `sums` was taken of.
Fit least_squares(const Sums& sums, float x_sum, float count, bool minimum) noexcept {
  const Fit plain{sums.qq == 0.0F ? 0.0F : sums.xq / sums.qq, 0.0F};
  const float determinant = count * sums.qq - sums.q * sums.q;
  if (!minimum || determinant <= 0.0F) return plain;
  const float scale = (count * sums.xq - sums.q * x_sum) / determinant;
  const float offset = (scale * sums.q - x_sum) / count;
  return offset < 0.0F || scale < 0.0F ? plain : Fit{scale, offset};
}

// Scales up to this share around the first one are tried.
float step_of(int levels) noexcept { return std::min(0.06F, 0.5F / static_cast<float>(levels)); }

// From the first fit and some that are a little smaller and larger: round, fit, and again.
Fit search(std::span<const float> x, const Fit& first, int lowest, int highest,
           bool minimum) noexcept {
  constexpr int kFewest = -6, kMax = 4, kRounds = 3;
  const float step = step_of(highest - lowest + 1), x_sum = sum_of(x);
  Fit best = first;
  float error = std::numeric_limits<float>::infinity();
  for (int i = kFewest; i <= kMax; ++i) {
    Fit fit{first.scale * (1.0F + static_cast<float>(i) * step), first.minimum};
    for (int round = 0; round < kRounds; ++round) {
      const Sums sums = round_part(x, fit, lowest, highest);
      if (sums.error < error) {
        error = sums.error;
        best = fit;
      }
      fit = least_squares(sums, x_sum, static_cast<float>(x.size()), minimum);
    }
  }
  return best;
}

float extreme_of(std::span<const float> x) noexcept {
  float extreme = 0.0F;
  for (const float value : x) {
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  return extreme;
}

// From the smallest and the largest number alone.
Fit plain_fit(std::span<const float> x, const LevelRange& range) noexcept {
  if (range.minimum_highest == 0) {
    return {extreme_of(x) / static_cast<float>(range.q_lowest), 0.0F};
  }
  const float smallest = std::min(0.0F, *std::min_element(x.begin(), x.end()));
  const float largest = std::max(smallest, *std::max_element(x.begin(), x.end()));
  return {(largest - smallest) / static_cast<float>(range.q_highest), -smallest};
}

// A block with whole scales: what is stored, but for q, which follows from it.
struct Block {
  float d = 0.0F, dmin = 0.0F;  // float16
  int scales[kMaxParts] = {};
  int minima[kMaxParts] = {};
  float error = 0.0F;

  Fit part(int i) const {
    return {d * static_cast<float>(scales[i]), dmin * static_cast<float>(minima[i])};
  }
};

float as_half(float value) noexcept { return half_to_float(float_to_half(value)); }

int whole(float value, int lowest, int highest) noexcept {
  const auto low = static_cast<float>(lowest), high = static_cast<float>(highest);
  return static_cast<int>(nearest(std::clamp(value, low, high)));
}

class KQuantizer {
 public:
  KQuantizer(const LevelRange& range, const float* x) : range_(range), x_(x) {}

  Block run() const noexcept {
    Fit plain[kMaxParts], fitted[kMaxParts];
    for (int i = 0; i < range_.parts; ++i) {
      plain[i] = plain_fit(part(i), range_);
      fitted[i] =
          search(part(i), plain[i], range_.q_lowest, range_.q_highest, range_.minimum_highest > 0);
    }
    const Block first = refine(whole_scales(fitted)), second = refine(whole_scales(plain));
    return first.error <= second.error ? first : second;
  }

  void levels(const Block& block, std::uint8_t* out) const noexcept {
    for (int i = 0; i < range_.parts; ++i) {
      const Fit fit = block.part(i);
      const float inverse = inverse_of(fit.scale);
      const auto low = static_cast<float>(range_.q_lowest);
      const auto high = static_cast<float>(range_.q_highest);
      for (int j = i * range_.length(); j < (i + 1) * range_.length(); ++j) {
        out[j] = static_cast<std::uint8_t>(level(x_[j], fit, inverse, low, high) - low);
      }
    }
  }

 private:
  std::span<const float> part(int i) const {
    return {x_ + i * range_.length(), static_cast<std::size_t>(range_.length())};
  }

  float error_of(int i, const Fit& fit) const noexcept {
    return round_part(part(i), fit, range_.q_lowest, range_.q_highest).error;
  }

  // The largest scale and minimum take the largest whole numbers.
  Block whole_scales(const Fit* fits) const noexcept {
    float scale = 0.0F, minimum = 0.0F;
    for (int i = 0; i < range_.parts; ++i) {
      if (std::fabs(fits[i].scale) > std::fabs(scale)) scale = fits[i].scale;
      minimum = std::max(minimum, fits[i].minimum);
    }
    const bool is_signed = range_.scale_lowest < 0;
    const int end = is_signed ? range_.scale_lowest : range_.scale_highest;
    Block block;
    block.d = as_half(scale / static_cast<float>(end));
    if (range_.minimum_highest > 0) {
      block.dmin = as_half(minimum / static_cast<float>(range_.minimum_highest));
    }
    for (int i = 0; i < range_.parts; ++i) {
      block.scales[i] =
          whole(fits[i].scale * inverse_of(block.d), range_.scale_lowest, range_.scale_highest);
      block.minima[i] = whole(fits[i].minimum * inverse_of(block.dmin), 0, range_.minimum_highest);
      block.error += error_of(i, block.part(i));
    }
    return block;
  }

  // Takes the best of the neighbours of the scale and the minimum of a part; returns its error.
  float improve_part(Block& block, int i) const noexcept {
    const int scale = block.scales[i], minimum = block.minima[i];
    float best = error_of(i, block.part(i));
    int best_scale = scale, best_minimum = minimum;
    const int reach = range_.minimum_highest > 0 ? 1 : 0;
    for (int s = scale - 1; s <= scale + 1; ++s) {
      for (int m = minimum - reach; m <= minimum + reach; ++m) {
        if (s < range_.scale_lowest || s > range_.scale_highest || m < 0 ||
            m > range_.minimum_highest) {
          continue;
        }
        block.scales[i] = s;
        block.minima[i] = m;
        const float error = error_of(i, block.part(i));
        if (error < best) {
          best = error;
          best_scale = s;
          best_minimum = m;
        }
      }
    }
    block.scales[i] = best_scale;
    block.minima[i] = best_minimum;
    return best;
  }

  // d and dmin by least squares for the whole scales and levels of `block`.
  Block with_fitted_halves(const Block& block) const noexcept {
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;  // a = scale * q, b = -minimum
    for (int i = 0; i < range_.parts; ++i) {
      const Sums sums = round_part(part(i), block.part(i), range_.q_lowest, range_.q_highest);
      const double scale = block.scales[i], minimum = block.minima[i], x = sum_of(part(i));
      aa += scale * scale * sums.qq;
      ab -= scale * minimum * sums.q;
      bb += minimum * minimum * range_.length();
      xa += scale * sums.xq;
      xb -= minimum * x;
    }
    Block result = block;
    const double determinant = aa * bb - ab * ab;
    if (determinant > 1e-6 * aa * bb) {
      result.d = as_half(static_cast<float>((xa * bb - xb * ab) / determinant));
      result.dmin = as_half(static_cast<float>((xb * aa - xa * ab) / determinant));
    } else if (aa > 0) {
      result.d = as_half(static_cast<float>((xa - ab * block.dmin) / aa));
    }
    result.error = 0.0F;
    for (int i = 0; i < range_.parts; ++i) result.error += error_of(i, result.part(i));
    return result;
  }

  Block refine(Block block) const noexcept {
    constexpr int kRounds = 2;
    for (int round = 0; round < kRounds; ++round) {
      block.error = 0.0F;
      for (int i = 0; i < range_.parts; ++i) block.error += improve_part(block, i);
      const Block fitted = with_fitted_halves(block);
      if (!(fitted.error < block.error)) break;
      block = fitted;
    }
    return block;
  }

  const LevelRange& range_;
  const float* x_;
};

// ---------------------------------------------------------------- bits

void store(float value, std::uint8_t* out) noexcept {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(out, &bits, sizeof bits);
}

// Two bits of each of 256 numbers in 64 bytes: see unpack_blocks.
void store_two_bits(const std::uint8_t* q, int shift, std::uint8_t* out) noexcept {
  for (int j = 0; j < kBlock; ++j) {
    const int location = j / 128 * 32 + j % 32, bits = (q[j] >> shift) & 3;
    out[location] = static_cast<std::uint8_t>(out[location] | (bits << (j / 32 % 4 * 2)));
  }
}

// Bit `bit` of each of 256 numbers in 32 bytes.
void store_one_bit(const std::uint8_t* q, int bit, std::uint8_t* out) noexcept {
  for (int j = 0; j < kBlock; ++j) {
    out[j % 32] = static_cast<std::uint8_t>(out[j % 32] | (((q[j] >> bit) & 1) << (j / 32)));
  }
}

// The low halves of 256 numbers in 128 bytes; `run` neighbours share the half of the bytes.
void store_halves(const std::uint8_t* q, int run, std::uint8_t* out) noexcept {
  for (int j = 0; j < kBlock; ++j) {
    const int location = j / (2 * run) * run + j % run, shift = j / run % 2 * 4;
    out[location] = static_cast<std::uint8_t>(out[location] | ((q[j] & 0xF) << shift));
  }
}

void store_scales_and_minima(const Block& block, std::uint8_t* out) noexcept {
  for (int i = 0; i < 4; ++i) {
    const int scale = block.scales[4 + i], minimum = block.minima[4 + i];
    out[i] = static_cast<std::uint8_t>(block.scales[i] | ((scale & 0x30) << 2));
    out[4 + i] = static_cast<std::uint8_t>(block.minima[i] | ((minimum & 0x30) << 2));
    out[8 + i] = static_cast<std::uint8_t>((scale & 0xF) | ((minimum & 0xF) << 4));
  }
}

void store_signed_scales(const Block& block, std::uint8_t* out) noexcept {
  for (int i = 0; i < 16; ++i) {
    const int scale = block.scales[i] + 32;
    out[i % 8] = static_cast<std::uint8_t>(out[i % 8] | ((scale & 0xF) << (i / 8 * 4)));
    out[8 + i % 4] = static_cast<std::uint8_t>(out[8 + i % 4] | ((scale >> 4) << (i / 4 * 2)));
  }
}

void store_block(BlockFormat format, const Block& block, const std::uint8_t* q,
                 std::uint8_t* out) noexcept {
  std::fill(out, out + block_facts(format).bytes, std::uint8_t{0});
  if (format == BlockFormat::kQ2_K) {
    for (int i = 0; i < 16; ++i) {
      out[i] = static_cast<std::uint8_t>(block.scales[i] | (block.minima[i] << 4));
    }
    store_two_bits(q, 0, out + 16);
    store(block.d, out + 80);
    store(block.dmin, out + 82);
  } else if (format == BlockFormat::kQ3_K) {
    store_one_bit(q, 2, out);
    store_two_bits(q, 0, out + 32);
    store_signed_scales(block, out + 96);
    store(block.d, out + 108);
  } else if (format == BlockFormat::kQ6_K) {
    store_halves(q, 64, out);
    store_two_bits(q, 4, out + 128);
    for (int i = 0; i < 16; ++i) {
      out[192 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(block.scales[i]));
    }
    store(block.d, out + 208);
  } else {  // Q4_K, Q5_K
    const bool five = format == BlockFormat::kQ5_K;
    store(block.d, out);
    store(block.dmin, out + 2);
    store_scales_and_minima(block, out + 4);
    if (five) store_one_bit(q, 4, out + 16);
    store_halves(q, 32, out + (five ? 48 : 16));
  }
}

}  // namespace

void quantize_k_block(BlockFormat format, const float* x, std::uint8_t* out) noexcept {
  const LevelRange range = range_of(format);
  const KQuantizer quantizer(range, x);
  const Block block = quantizer.run();
  std::uint8_t q[kBlock];
  quantizer.levels(block, q);
  store_block(format, block, q, out);
}

float fit_scale(std::span<const float> x, int lowest, int highest) noexcept {
  const float extreme = extreme_of(x);
  if (extreme == 0.0F) return 0.0F;
  return search(x, {extreme / static_cast<float>(lowest), 0.0F}, lowest, highest, false).scale;
}

}  // namespace sam_rlx
