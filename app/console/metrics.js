// Reads the metrics of the service, and makes rates of two readings.

const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/** The samples of a Prometheus text by name: `[{labels, value}]`. */
export function parsed(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]));
    if (!found.has(match[1])) found.set(match[1], []);
    found.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return found;
}

/** The sum of the samples of a name whose labels are these. */
export function sum(metrics, name, labels = {}) {
  const wanted = Object.entries(labels);
  return (metrics.get(name) ?? [])
    .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
    .reduce((total, sample) => total + sample.value, 0);
}

/** Rates per second between readings; a counter that fell has begun again. */
export class Rates {
  #before = new Map();

  of(name, value, now = performance.now()) {
    const before = this.#before.get(name);
    this.#before.set(name, { value, now });
    if (!before || now <= before.now) return null;
    return Math.max(0, value < before.value ? value : value - before.value) / ((now - before.now) / 1000);
  }
}
