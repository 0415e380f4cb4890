#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "models/sam3/tokenizer.h"

namespace sam_rlx {
namespace {

// ids (N, context_length), and how many ids each text has with its start and end.
py::tuple tokenize(const sam3::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                   std::int64_t context_length) {
  if (context_length < 1) fail("context_length", "at least 1", std::to_string(context_length));
  const auto count = static_cast<std::int64_t>(texts.size());
  auto ids = make_array<std::int64_t>({count, context_length});
  auto lengths = make_array<std::int64_t>({count});
  const auto width = static_cast<std::size_t>(context_length);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    lengths.mutable_data()[i] = tokenizer(texts[i], {ids.mutable_data() + i * width, width});
  }
  return py::make_tuple(ids, lengths);
}

}  // namespace

void register_tokenizer(py::module_& m) {
  py::classh<sam3::Tokenizer>(m, "Tokenizer")
      .def(py::init([](const py::bytes& merges) {
             return std::make_unique<sam3::Tokenizer>(static_cast<std::string_view>(merges));
           }),
           py::arg("merges"))
      .def_property_readonly("vocab_size", &sam3::Tokenizer::vocab_size)
      .def("__call__", tokenize, py::arg("texts"), py::arg("context_length"));
}

}  // namespace sam_rlx
