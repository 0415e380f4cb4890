#include "bindings/mask_arrays.h"

#include "bindings/config_dict.h"

namespace sam_rlx {
namespace {

py::list xywh(std::int64_t x0, std::int64_t y0, std::int64_t x1, std::int64_t y1) {
  py::list box;
  for (const std::int64_t side : {x0, y0, x1 - x0, y1 - y0}) box.append(side);
  return box;
}

}  // namespace

const std::uint8_t* mask_bytes(const MaskArray& mask) {
  if (mask.ndim() != 2) fail("mask", "shape (H, W)", shape_of(mask, "mask").str());
  static_assert(sizeof(bool) == 1);
  return reinterpret_cast<const std::uint8_t*>(mask.data());
}

py::array_t<std::uint32_t> counts_array(const Rle& rle) {
  return py::array_t<std::uint32_t>(static_cast<py::ssize_t>(rle.counts.size()), rle.counts.data());
}

Rle rle_from(const Array<std::uint32_t>& counts, std::pair<std::int64_t, std::int64_t> size) {
  Rle rle{size.first, size.second, {counts.data(), counts.data() + counts.size()}};
  check_rle(rle);
  return rle;
}

py::array_t<bool> mask_array(const Rle& rle) {
  auto mask = make_array<bool>({rle.height, rle.width});
  decode_rle(rle, reinterpret_cast<std::uint8_t*>(mask.mutable_data()));
  return mask;
}

MaskGeneratorConfig generator_config(const py::dict& options,
                                     const std::optional<std::vector<Array<double>>>& point_grids,
                                     bool limited) {
  auto config = read_options<MaskGeneratorConfig>(
      options, "everything mode", "an argument of SamAutomaticMaskGenerator", limited);
  if (!point_grids) return config;
  config.point_grids.emplace();
  for (const Array<double>& grid : *point_grids) {
    if (grid.ndim() != 2 || grid.shape(1) != 2) {
      fail("point_grids", "grids (n, 2)", shape_of(grid, "point_grids").str());
    }
    config.point_grids->emplace_back(grid.data(), grid.data() + grid.size());
  }
  return config;
}

py::list record_dicts(const std::vector<MaskRecord>& records) {
  py::list list;
  for (const MaskRecord& record : records) {
    const PixelBox& box = record.box;
    const CropBox& crop = record.crop_box;
    const Rle& mask = record.segmentation;
    py::list points;
    points.append(py::cast(record.point));
    py::dict fields;
    fields["counts"] = counts_array(mask);
    fields["size"] = py::make_tuple(mask.height, mask.width);
    fields["area"] = rle_area(mask);
    fields["bbox"] = xywh(box.x0, box.y0, box.x1, box.y1);
    fields["predicted_iou"] = record.predicted_iou;
    fields["point_coords"] = points;
    fields["stability_score"] = record.stability_score;
    fields["crop_box"] = xywh(crop.x0, crop.y0, crop.x1, crop.y1);
    list.append(fields);
  }
  return list;
}

}  // namespace sam_rlx
