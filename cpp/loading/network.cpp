#include "loading/network.h"

namespace sam_rlx {
namespace {

struct NetworkMaker {
  Network operator()(const sam::SamConfig& config) const {
    return Network(std::in_place_type<sam::Sam>, config);
  }
  Network operator()(const sam2::Sam2Config& config) const {
    return Network(std::in_place_type<sam2::Sam2>, config);
  }
  Network operator()(const sam3::Sam3Config& config) const {
    return Network(std::in_place_type<sam3::Sam3>, config);
  }
};

}  // namespace

Network make_network(const NetworkConfig& config) { return std::visit(NetworkMaker{}, config); }

}  // namespace sam_rlx
