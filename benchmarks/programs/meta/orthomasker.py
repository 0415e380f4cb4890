"""orthomasker: everything mode over the tiles of a GeoTIFF, as polygons."""

import numpy as np
import shared
import small


def prepare():
    """Write a GeoTIFF and load SAM."""
    import rasterio
    from rasterio.features import rasterize
    from rasterio.transform import from_origin

    small.sam("vit_h")
    from orthomasker.feature_extractor import RasterFeatureExtractor

    image = shared.photo("coins")
    height, width = shared.SIZE
    profile = {"width": width, "height": height, "count": 3, "dtype": "uint8"}
    georeference = {"crs": "EPSG:32633", "transform": from_origin(500000, 5000000, 1, 1)}
    path = str(shared.WORK / "ortho.tif")
    with rasterio.open(path, "w", driver="GTiff", **profile, **georeference) as file:
        file.write(image.transpose(2, 0, 1))
    weights = str(shared.WEIGHTS / small.SAM)
    extractor = RasterFeatureExtractor(
        sam_checkpoint=weights, tile_size=170, overlap=0, min_area=20, max_area=8000
    )
    return extractor, path, rasterize, georeference["transform"]


def work(prepared):
    """Write features to a file; return the pixels of each."""
    import geopandas

    extractor, path, rasterize, transform = prepared
    features = str(shared.WORK / "features.geojson")
    extractor.convert(path, features)
    frame = geopandas.read_file(features)
    covered = np.zeros((len(frame), *shared.SIZE), bool)
    for index, shape in enumerate(frame.geometry):
        covered[index] = rasterize([shape], shared.SIZE, transform=transform) > 0
    return {"masks": shared.unordered(covered)}


shared.run(prepare, work)
