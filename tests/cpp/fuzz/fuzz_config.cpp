// libFuzzer target: any text as the config in the metadata of a model, whose tensors are those of a
// release. The first byte chooses the family. A network of the config's sizes is made.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "core/error.h"
#include "loading/family.h"
#include "loading/loader.h"
#include "loading/network.h"

namespace {

using namespace sam_rlx;

// Names and shapes of a network, without numbers.
template <class Net>
StateDict shapes_of(Net& network) {
  StateDict result;
  result.source = "fuzz";
  for (const auto& [name, shape] : list_parameters(network)) {
    TensorEntry entry;
    entry.name = name;
    for (int axis = 0; axis < shape.rank(); ++axis) entry.dims.push_back(shape[axis]);
    result.add(std::move(entry));
  }
  return result;
}

// The tensors of a family's release, and the family that reads them.
struct Tensors {
  const Family& family;
  StateDict state_dict;

  explicit Tensors(const Family& row) : family(row) {
    Network network = make_network(row.released_config());
    state_dict = std::visit([](auto& net) { return shapes_of(net); }, network);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::array<Tensors, 3> releases{Tensors(sam_family()), Tensors(sam2_family()),
                                         Tensors(sam3_family())};
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Tensors& release = releases[data[0] % releases.size()];
  release.state_dict.metadata["config"] = text;
  try {
    Network network = make_network(release.family.config_of(release.state_dict, {}));
    std::visit([&](auto& net) { check_parameters(list_parameters(net), release.state_dict, {}); },
               network);
  } catch (const Error&) {
  }
  return 0;
}
