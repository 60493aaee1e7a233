/**
 * Whether a place lies in a safe zone: the client's half of the protocol, where a wrong yes would be a wrong answer.
 *
 * A place counts as inside only when it is so by more than numbers can be off; else a request is sent. A polygon's margin is
 * 1e-9 of the width of the map's bounds, and a little of how large its coordinates are; a circle's is what the distance may
 * be off. Each test is O(edges).
 */

/** Of the width of the bounds: how far inside a polygon a place must be. */
const MARGIN = 1e-9;

/** Of the largest coordinate: what a vertex may be off where it is written. */
const ROUNDED = 1e-15;

/** Metres from the middle of the Earth to its surface, on average. */
const RADIUS = 6_371_008.8;

const RADIAN = Math.PI / 180;

function euclidean(ax, ay, bx, by) {
  const dx = bx - ax;
  const dy = by - ay;
  return Math.sqrt(dx * dx + dy * dy);
}

function manhattan(ax, ay, bx, by) {
  return Math.abs(bx - ax) + Math.abs(by - ay);
}

/** Metres between two places of longitude and latitude in degrees. */
function haversine(ax, ay, bx, by) {
  const up = Math.sin((by - ay) * RADIAN * 0.5);
  const along = Math.sin((bx - ax) * RADIAN * 0.5);
  const h = up * up + Math.cos(ay * RADIAN) * Math.cos(by * RADIAN) * (along * along);
  return 2 * RADIUS * Math.asin(Math.sqrt(Math.min(1, h)));
}

/** How each metric measures, in the steps in which the service does. */
export const MEASURES = { euclidean, manhattan, "great-circle": haversine };

/** The places strictly within a circle `{center, radius}`. A radius of null is everywhere, 0 nowhere for sure. */
export class CircleZone {
  constructor({ center, radius }, metric) {
    this.center = center;
    this.radius = radius;
    this.#metric = metric;
  }

  #metric;

  /** Whether (x, y) is inside by more than its computed distance can be off. */
  holds(x, y) {
    if (this.radius === null) return true;
    const far = MEASURES[this.#metric](this.center[0], this.center[1], x, y);
    return far + slack(far, this.#metric) < this.radius;
  }
}

function slack(far, metric) {
  if (metric !== "great-circle") return 1e-12 * far;
  // Haversine loses all it knows where its argument is near 1: half round the Earth.
  return far > 0.99 * Math.PI * RADIUS ? 1 : 1e-6 + 1e-12 * far;
}

/** The places strictly within polygons of GeoJSON, and not in their holes. */
export class PolygonZone {
  constructor(geometry, bounds) {
    this.#polygons = polygons(geometry).map((rings) => rings.flatMap(edges));
    const [x0, y0, x1, y1] = bounds;
    let largest = 0;
    for (const edge of this.#polygons.flat()) for (const end of edge) largest = Math.max(largest, Math.abs(end));
    const margin = MARGIN * Math.max(x1 - x0, y1 - y0) + ROUNDED * largest;
    this.#squared = margin * margin;
  }

  #polygons;
  #squared;

  /** Whether (x, y) is inside one of them and farther than the margin from all of its edges. */
  holds(x, y) {
    return this.#polygons.some((polygon) => this.#within(polygon, x, y));
  }

  #within(polygon, x, y) {
    let odd = false;
    for (const edge of polygon) {
      const ax = edge[0] - x;
      const ay = edge[1] - y;
      const bx = edge[2] - x;
      const by = edge[3] - y;
      if (!(squaredFromOrigin(ax, ay, bx, by) > this.#squared)) return false;
      // A ray to the right: only where the place is level with the edge must the side be computed, and there it is sure,
      // for the place is off the edge by the margin.
      if (ay > 0 !== by > 0) {
        if (ax > 0 && bx > 0) odd = !odd;
        else if (ax > 0 || bx > 0) odd = odd !== (ax * by - bx * ay > 0 === by > ay);
      }
    }
    return odd;
  }
}

/** The rings of each polygon; none of a geometry of another kind, in which nothing is for sure. */
function polygons(geometry) {
  if (geometry.type === "Polygon") return [geometry.coordinates];
  return geometry.type === "MultiPolygon" ? geometry.coordinates : [];
}

function edges(ring) {
  return ring.slice(1).map((to, at) => [ring[at][0], ring[at][1], to[0], to[1]]);
}

/** The square of the distance from (0, 0) to the line between two points. */
function squaredFromOrigin(ax, ay, bx, by) {
  const dx = bx - ax;
  const dy = by - ay;
  const length = dx * dx + dy * dy;
  const t = length > 0 ? Math.min(1, Math.max(0, -(ax * dx + ay * dy) / length)) : 0;
  const nx = ax + t * dx;
  const ny = ay + t * dy;
  return nx * nx + ny * ny;
}

const NOWHERE = { holds: () => false };

/** What tests places against the zone of an answer, on a map with this metric and these bounds. */
export function zoneOf(zone, metric, bounds) {
  if (zone === null || zone === undefined) return NOWHERE;
  return "center" in zone ? new CircleZone(zone, metric) : new PolygonZone(zone, bounds);
}
