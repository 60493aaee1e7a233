// The types of resources, in the order in which they are listed.

export const TYPES = ["boards", "matchers", "relays", "maps", "feeds"];
