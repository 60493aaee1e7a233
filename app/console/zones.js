// Places, distances and zones of maps: the half of a moving client.

const RADIUS = 6371008.8;
const radians = (degrees) => (degrees * Math.PI) / 180;

/** The distance of two places by the metric of a map. */
export function distance(metric, [ax, ay], [bx, by]) {
  if (metric === "manhattan") return Math.abs(ax - bx) + Math.abs(ay - by);
  if (metric !== "great-circle") return Math.hypot(ax - bx, ay - by);
  const h =
    Math.sin(radians(by - ay) / 2) ** 2 +
    Math.cos(radians(ay)) * Math.cos(radians(by)) * Math.sin(radians(bx - ax) / 2) ** 2;
  return 2 * RADIUS * Math.asin(Math.min(1, Math.sqrt(h)));
}

/** The rings of a zone's polygons, empty for a circle. */
export function ringsOf(zone) {
  if (zone?.type === "Polygon") return zone.coordinates;
  return zone?.type === "MultiPolygon" ? zone.coordinates.flat() : [];
}

/** Whether a place lies in a zone: there the answer holds. Null is a zone of one place. */
export function inside(zone, place, metric) {
  if (!zone) return false;
  if (zone.center) return zone.radius === null || distance(metric, zone.center, place) < zone.radius;
  const [x, y] = place;
  let within = false;
  for (const ring of ringsOf(zone)) {
    for (let i = 0, j = ring.length - 1; i < ring.length; j = i, i += 1) {
      const [xi, yi] = ring[i];
      const [xj, yj] = ring[j];
      if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) within = !within;
    }
  }
  return within;
}

/** The outline of a zone, as rings of places; nothing where it is everywhere, or one place. */
export function outline(zone, metric) {
  if (!zone?.center) return ringsOf(zone);
  const {
    center: [x, y],
    radius,
  } = zone;
  if (!radius) return [];
  if (metric === "manhattan")
    return [
      [
        [x + radius, y],
        [x, y + radius],
        [x - radius, y],
        [x, y - radius],
        [x + radius, y],
      ],
    ];
  const ring = [];
  for (let i = 0; i <= 96; i += 1) {
    const turn = (2 * Math.PI * i) / 96;
    if (metric !== "great-circle") {
      ring.push([x + radius * Math.cos(turn), y + radius * Math.sin(turn)]);
      continue;
    }
    const along = radius / RADIUS;
    const lat = Math.asin(
      Math.sin(radians(y)) * Math.cos(along) + Math.cos(radians(y)) * Math.sin(along) * Math.cos(turn),
    );
    const east = Math.atan2(
      Math.sin(turn) * Math.sin(along) * Math.cos(radians(y)),
      Math.cos(along) - Math.sin(radians(y)) * Math.sin(lat),
    );
    ring.push([x + (east * 180) / Math.PI, (lat * 180) / Math.PI]);
  }
  return [ring];
}

/** The k best of the candidates at a place by a weighted sum, as the service ranks them. */
export function ranked(map, candidates, place, k, weights) {
  const score = (one, away) =>
    Object.entries(map.attributes).reduce(
      (total, [name, attribute]) => {
        const better = typeof attribute === "string" ? attribute : attribute.order;
        return total + (weights[name] ?? 0) * (better === "high" ? -one.values[name] : one.values[name]);
      },
      (weights.distance ?? 0) * away,
    );
  return candidates
    .map((one) => {
      const away = distance(map.metric, place, one.location);
      return { ...one, distance: away, score: score(one, away) };
    })
    .sort((a, b) => a.score - b.score || a.created - b.created)
    .slice(0, k)
    .map((one, i) => ({ ...one, rank: i + 1 }));
}
