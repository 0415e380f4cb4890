#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "core/workspace.h"

namespace sam_rlx {

struct KernelTable;

// Copies of what the layers computed, in order, by path. For tests and parity reports.
struct Trace {
  std::vector<std::pair<std::string, Tensor>> records;
};

// What a forward pass needs besides weights and inputs. Made by a predictor for one call.
struct Context {
  const KernelTable& kernels;  // of the model: packed weights depend on it
  Workspace& workspace;
  int num_threads = 1;
  Trace* trace = nullptr;
  // Raises when the user wants to stop. Called between blocks, never inside a parallel loop.
  void (*poll_interrupt)() = nullptr;

  void record(const std::string& path, ConstView value) const {
    if (trace != nullptr) trace->records.emplace_back(path, Tensor::copy_of(value));
  }
  void check_interrupt() const {
    if (poll_interrupt != nullptr) poll_interrupt();
  }
};

}  // namespace sam_rlx
