#include "loading/preprocessor.h"

#include <cmath>
#include <string>

#include "checkpoint/json.h"
#include "core/error.h"
#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

constexpr const char* kWhere = "preprocessor_config.json";

bool flag(const Json& json, const char* key) {
  const Json* const found = json.find(key);
  return found == nullptr || found->is_null() || found->boolean(std::string(kWhere) + ": " + key);
}

std::array<double, 3> colors(const Json& json, const char* key, std::array<double, 3> absent) {
  const Json* const found = json.find(key);
  if (found != nullptr && !found->is_null()) {
    read_json(*found, std::string(kWhere) + ": " + key, absent);
  }
  return absent;
}

// One number, or an object with "height" and "width" or with "longest_edge".
void check_side(const Json& size, std::int64_t side) {
  const auto check = [&](const std::string& key, const Json& json) {
    const std::string where = std::string(kWhere) + ": " + key;
    const std::int64_t found = json.integer(where);
    if (found == side) return;
    fail<CheckpointError>(where, std::to_string(side) + ", the side of the network's images",
                          std::to_string(found));
  };
  if (size.is_integer()) return check("size", size);
  for (const char* const key : {"height", "width", "longest_edge"}) {
    const Json* const found = size.find(key);
    if (found != nullptr && !found->is_null()) check(std::string("size.") + key, *found);
  }
}

}  // namespace

void read_preprocessor(const StateDict& state_dict, Preprocessing found) {
  const auto text = state_dict.metadata.find("preprocessor");
  if (text == state_dict.metadata.end()) return;
  const Json whole = Json::parse(text->second, kWhere);
  const Json* const part = whole.find("image_processor");  // in the file of a processor
  const Json& json = part == nullptr ? whole : *part;
  if (const Json* const size = json.find("size")) check_side(*size, found.side);
  std::array<double, 3> mean{}, deviation{};
  for (std::size_t i = 0; i < 3; ++i) {
    mean[i] = static_cast<double>(found.mean[i]) / found.scale;
    deviation[i] = static_cast<double>(found.std[i]) / found.scale;
  }
  const bool normalizes = flag(json, "do_normalize");
  mean = normalizes ? colors(json, "image_mean", mean) : std::array{0.0, 0.0, 0.0};
  deviation = normalizes ? colors(json, "image_std", deviation) : std::array{1.0, 1.0, 1.0};
  // Pixels times this are what mean and deviation are for.
  double factor = 1.0 / 255.0;
  const Json* const rescale = json.find("rescale_factor");
  if (rescale != nullptr && !rescale->is_null()) {
    factor = rescale->number(std::string(kWhere) + ": rescale_factor");
  }
  if (!flag(json, "do_rescale")) factor = 1.0;
  const double unit = found.scale / 255.0 / factor;
  // A unit that is 1 but for its rounding leaves the numbers as they are written.
  const double exact = std::abs(unit - found.scale) < 1e-9 * found.scale ? found.scale : unit;
  for (std::size_t i = 0; i < 3; ++i) {
    found.mean[i] = static_cast<float>(mean[i] * exact);
    found.std[i] = static_cast<float>(deviation[i] * exact);
    const bool usable =
        std::abs(found.mean[i]) <= 1e6F && found.std[i] >= 1e-6F && found.std[i] <= 1e6F;
    if (usable) continue;
    fail<CheckpointError>(kWhere, "image_mean up to 1e6 and image_std from 1e-6 to 1e6",
                          number_text(found.mean[i]) + " and " + number_text(found.std[i]));
  }
}

}  // namespace sam_rlx
