#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// What a training of few numbers left: for some layers two matrices of low rank, whose product is
// added to the layer's weight, and whole tensors that replace those of the model.
struct Adapter {
  struct Update {
    std::string module;  // the layer, by the adapter's name for it
    TensorEntry a, b;    // (r, in, ...) and (out, r, ...); the weight is (out, in, ...)
    double scale = 1.0;
    std::optional<TensorEntry> bias = {};       // (out,): added to the layer's, times the scale
    std::optional<TensorEntry> magnitude = {};  // DoRA: (out,), the norms of the rows of the result
    bool embedding = false;                     // the weight is (in, out)
    // The product goes to one of so many equal parts of the rows: queries, keys or values.
    std::int64_t part = 0, parts = 1;
  };

  StateDict file;  // that the entries point into
  std::vector<Update> updates;
  std::vector<std::pair<std::string, TensorEntry>> whole;
  // Of files that count the blocks instead of naming them: how many they have to be.
  std::optional<std::int64_t> counted_blocks;
};

// Reads a folder of PEFT, one of its files beside adapter_config.json, a file of SAMed, or one of
// micro-sam. UnsupportedError names what no merge gives: other kinds of adapters, settings of PEFT
// with which the product is not all. CheckpointError: damaged, or a matrix without its other half.
Adapter read_adapter(const std::filesystem::path& source);

// The same for a checkpoint that has an adapter among the tensors of its model, as micro-sam
// writes: takes it out, and gives the model's tensors their own names. None where there is no such.
std::optional<Adapter> take_adapter(StateDict& state_dict);

// Name of a block's layer in files that count blocks.
std::string counted_block(std::int64_t block);

}  // namespace sam_rlx
