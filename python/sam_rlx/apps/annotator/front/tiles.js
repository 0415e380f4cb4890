// Parts of a large image, at the scale at which they are seen: such an image comes small at first.
// At a level a pixel stands for 2**level × 2**level pixels of the image.

import { clamp } from "./dom.js";
import { seenBox } from "./state.js";

const TILE = 512; // pixels of a part's sides
const KEPT = 64; // parts; one takes a megabyte
const AT_ONCE = 8; // in one message

const nameOf = (level, [column, row]) => `${level}/${column}/${row}`;

// The level at which the image is seen; that of the small image is the last one.
const levelOf = ({ image, zoom, stage }) =>
  clamp(Math.floor(Math.log2(1.001 / (zoom.scale * stage.ratio))), 0, image.level || 0);

// The parts of a level that are seen, with a ring around, from the middle on.
function seenTiles(state, level, ring) {
  const side = TILE << level;
  const { width, height } = state.image;
  const [x0, y0, x1, y1] = seenBox(state).map((at) => at / side);
  const found = [];
  if (x0 >= x1 || y0 >= y1) return found;
  for (let row = Math.floor(y0) - ring; row < Math.ceil(y1) + ring; row++)
    for (let column = Math.floor(x0) - ring; column < Math.ceil(x1) + ring; column++)
      if (row >= 0 && column >= 0 && row * side < height && column * side < width) found.push([column, row]);
  const far = ([column, row]) => Math.hypot(2 * column + 1 - x0 - x1, 2 * row + 1 - y0 - y1);
  return found.sort((a, b) => far(a) - far(b));
}

// What is seen, and then a ring if there is room for it.
function wantedTiles(state, level) {
  const seen = seenTiles(state, level, 0);
  const more = seenTiles(state, level, 1);
  return more.length > KEPT ? seen : [...new Map([...seen, ...more].map((at) => [nameOf(level, at), at])).values()];
}

const isMissing = (state, level) => (at) => !state.tiles.has(nameOf(level, at));

// The parts that are seen and not there, at the level at which the image is seen.
function unsharp(state, level) {
  return level >= (state.image?.level || 0) ? [] : seenTiles(state, level, 0).filter(isMissing(state, level));
}

// Whether all that is seen is as sharp as it can be.
export const isSharp = (state) => !state.image || !unsharp(state, levelOf(state)).length;

// What to ask for next, what is seen before the ring around it; null if all is there.
export function missingTiles(state) {
  const level = state.image ? levelOf(state) : 0;
  if (level >= (state.image?.level || 0)) return null;
  const seen = unsharp(state, level);
  const missing = seen.length ? seen : wantedTiles(state, level).filter(isMissing(state, level));
  return missing.length ? { level, tiles: missing.slice(0, AT_ONCE) } : null;
}

// The parts that are kept with those of a message: the oldest go that are not wanted.
export function withTiles(state, { key, level, tiles: places }, bitmaps) {
  if (key !== state.image?.key) return state.tiles;
  const tiles = new Map(state.tiles);
  places.forEach((at, index) => tiles.set(nameOf(level, at), bitmaps[index]));
  const now = levelOf(state);
  const wanted = new Set(wantedTiles(state, now).map((at) => nameOf(now, at)));
  for (const name of [...tiles.keys()])
    if (tiles.size > KEPT && !wanted.has(name)) tiles.delete(name);
  return tiles;
}

// Draw the parts that are there over the small image, the coarse ones first. Their sides lie on
// whole pixels of the screen, so that there are no seams.
export function drawTiles(context, state) {
  const { image, zoom, stage, tiles } = state;
  const scale = zoom.scale * stage.ratio;
  const edge = (at) => Math.round(at * scale);
  context.save();
  context.setTransform(1, 0, 0, 1, Math.round(zoom.left * stage.ratio), Math.round(zoom.top * stage.ratio));
  for (let level = (image.level || 0) - 1; level >= levelOf(state); level--)
    for (const [column, row] of seenTiles(state, level, 0)) {
      const bitmap = tiles.get(nameOf(level, [column, row]));
      if (!bitmap) continue;
      const [x, y] = [(column * TILE) << level, (row * TILE) << level];
      const [x1, y1] = [Math.min(x + (bitmap.width << level), image.width),
        Math.min(y + (bitmap.height << level), image.height)];
      context.drawImage(bitmap, 0, 0, (x1 - x) / (1 << level), (y1 - y) / (1 << level),
        edge(x), edge(y), edge(x1) - edge(x), edge(y1) - edge(y));
    }
  context.restore();
}
