/** The JavaScript client of Rankcast, for browsers and Node 20 or newer. `docs/javascript.md` has all of it. */

import type * as api from "./api.js";

export type { api };

// Options

/** Options of every call. */
export interface Sending {
  signal?: AbortSignal;
  /** The key of a write, so that it can be sent once more later without being applied twice. */
  idempotencyKey?: string;
}

/** Options of a request with many elements: `skip` applies those that are good. */
export interface Bulk extends Sending {
  onError?: "refuse" | "skip";
}

/** How often and how patiently to ask again; pauses double from `first` to `most` seconds. */
export interface Retry {
  attempts?: number;
  first?: number;
  most?: number;
}

/** What is known of a WebSocket's class: that of browsers, of Node 22, or of a package. */
export type WebSocketClass = new (url: string) => object;

export interface RankcastOptions {
  /** An API key or token, or a function that gives one. */
  key?: string | (() => string | undefined | Promise<string | undefined>);
  /** A function that gives a ticket for the next stream, which is opened at the node `url` where there are several. */
  ticket?: string | ((wanted: { resource: string; ids: string[]; url?: string }) => string | Promise<string>);
  retry?: Retry;
  /** Seconds of one attempt (60). */
  timeout?: number;
  /** The service's setting in seconds (15): a connection that is silent for three of them is left and resumed. */
  heartbeat?: number;
  /** How many events wait for a slow consumer (256). */
  buffer?: number;
  /** Characters of one server-sent event at most (67,108,864). */
  maxMessage?: number;
  fetch?: typeof fetch;
  WebSocket?: WebSocketClass;
}

export interface WatchOptions {
  transport?: "sse" | "websocket";
  /** Yield `ready` too, each time that a connection has caught up. (Matchers and relays always do.) */
  ready?: boolean;
  heartbeat?: number;
  buffer?: number;
  signal?: AbortSignal;
}

export interface BoardWatchOptions extends WatchOptions {
  form?: "changes" | "tiles";
  /** Changes have the values before. */
  old?: boolean;
  /** At most one change in so many seconds. */
  squash?: number;
  /** What tiles need to know, where it is not to be fetched: as with a ticket. */
  known?: { subscription: Region & { k: number; offset?: number }; board: { rank: api.Rank } };
}

/** One element, many, or the bytes of an Arrow IPC stream. */
export type Elements<T> = T | Iterable<T> | ArrayBuffer | ArrayBufferView;

/** A pair is enough on a board with one range attribute. Infinite ends are unbounded, as null is. */
export type Pair = readonly [number | null, number | null];
export type Ranges = { [attribute: string]: Pair };

/** The region of a subscription: ranges or one of the shapes, and a filter. */
export interface Region {
  range?: Pair | Ranges | null;
  disc?: api.Disc | null;
  half_plane?: api.HalfPlane | null;
  simplex?: api.Simplex | null;
  where?: { [field: string]: string | number | boolean | null };
}

type Ranged<T> = Omit<T, "range" | "disc" | "half_plane" | "simplex" | "where"> & Region;

/** (x, y), under the great-circle metric (longitude, latitude) in degrees. */
export type Location = [number, number];

// Errors

export class RankcastError extends Error {}

/** The service refused a request, and nothing was changed by it. */
export class ProblemError extends RankcastError {
  readonly status: number;
  readonly problem: Partial<api.Problem>;
  readonly retryAfter: number | null;
  readonly type: string;
  readonly slug: string;
  readonly errors: { field: string; reason: string; index?: number }[];
}

/** The service did not respond. Sending a write once more with the same key is safe. */
export class Unreachable extends RankcastError {
  readonly idempotencyKey: string | null;
}

// Streams

export interface ListEvent<E> {
  event: "snapshot" | "reset";
  seq: number;
  list: E[];
  /** A slow consumer gets the latest list in place of what it missed. */
  squashed?: boolean;
}

export interface ChangeEvent<E> {
  event: "change";
  seq: number;
  changes: (Partial<Omit<E, "id" | "rank">> & {
    id: string;
    old_rank: number | null;
    new_rank: number | null;
    old_values?: { [attribute: string]: number };
  })[];
}

export interface TilesEvent {
  event: "tiles";
  seq: number;
  tiles: api.Tile[];
}

export interface ReadyEvent {
  event: "ready";
  seq: number;
}

export interface GoneEvent {
  event: "gone";
  seq: number;
  reason?: string;
}

export interface MissedEvent {
  event: "reset";
  seq: number;
  squashed?: boolean;
}

export interface WinEvent {
  event: "win";
  seq: number;
  values: { [dimension: string]: number | [number | null, number | null] };
  payload?: api.Json;
  rank: number;
  score: number;
}

export interface NotificationEvent {
  event: "notification";
  seq: number;
  values: { [attribute: string]: number };
  payload?: api.Json;
}

/** An answer of a standing query: `list` and `candidates` of a top-k, `skyline` of a skyline. */
export interface MapAnswer {
  seq: number;
  location: Location;
  list?: api.RankedCandidate[];
  candidates?: api.Candidate[];
  skyline?: api.Candidate[];
  zone: AnyZone;
}

export interface ResultEvent extends MapAnswer {
  event: "snapshot" | "result" | "reset";
  squashed?: boolean;
}

export type BoardStreamEvent = ListEvent<api.RankedObject> | ChangeEvent<api.RankedObject> | TilesEvent | ReadyEvent | GoneEvent;
export type FeedStreamEvent = ListEvent<api.RankedPost> | ChangeEvent<api.RankedPost> | ReadyEvent | GoneEvent;
export type MatcherStreamEvent = WinEvent | MissedEvent | ReadyEvent | GoneEvent;
export type RelayStreamEvent = NotificationEvent | MissedEvent | ReadyEvent | GoneEvent;
export type MapStreamEvent = ResultEvent | ReadyEvent | GoneEvent;

/** One subscription as it changes. Leaving a loop does not close it. */
export interface Watcher<V, E = never> extends AsyncIterable<V> {
  readonly id: string;
  /** As `boards/delays`. */
  readonly resource: string;
  /** The list right after the event that was yielded last; before the first iteration, the latest. */
  readonly list: E[];
  readonly offset: number;
  readonly seq: number | null;
  /** Of a map: the present answer. */
  readonly answer: MapAnswer | null;
  /** The position up to which all is known: `epoch:seq`. */
  readonly cursor: string | null;
  readonly connected: boolean;
  /** Whether the connection has caught up. */
  readonly current: boolean;
  readonly gone: boolean;
  readonly closed: boolean;
  readonly reconnects: number;
  next(): Promise<IteratorResult<V, undefined>>;
  /** Resolves once a connection has caught up. */
  ready(): Promise<void>;
  close(): void;
}

export interface Socket {
  readonly connected: boolean;
  readonly closed: boolean;
  readonly reconnects: number;
  /**
   * Send a request of `/v1` but streams. Resolves to the body of its response, which has the response's `status` and `body` as
   * properties that are not enumerable.
   */
  request<T = any>(
    method: string,
    path: string,
    body?: unknown,
    headers?: { [name: string]: string },
    options?: { signal?: AbortSignal },
  ): Promise<T & { readonly status: number; readonly body: T }>;
  watch(resource: `boards/${string}`, id: string, options?: BoardWatchOptions): Watcher<BoardStreamEvent, api.RankedObject>;
  watch(resource: `feeds/${string}`, id: string, options?: WatchOptions): Watcher<FeedStreamEvent, api.RankedPost>;
  watch(resource: `maps/${string}`, id: string, options?: WatchOptions): Watcher<MapStreamEvent, api.Candidate & { rank: number }>;
  watch(resource: `matchers/${string}`, id: string, options?: WatchOptions): Watcher<MatcherStreamEvent>;
  watch(resource: `relays/${string}`, id: string, options?: WatchOptions): Watcher<RelayStreamEvent>;
  close(): void;
}

// Resources

interface Resource<Config, Info> {
  readonly name: string;
  /** As `boards/delays`. */
  readonly path: string;
  put(config: Config, options?: Sending): Promise<Info>;
  info(options?: Sending): Promise<Info>;
  delete(options?: Sending): Promise<api.SeqResponse>;
}

interface Subscriptions<One, Summary = One> {
  subscription(id: string, options?: Sending): Promise<One>;
  deleteSubscription(id: string, options?: Sending): Promise<api.SeqResponse>;
  deleteSubscriptions(ids: Iterable<string>, options?: Sending): Promise<api.DeletedResponse>;
  subscriptions(options?: Sending): AsyncGenerator<Summary, void>;
}

export interface Board
  extends Resource<api.BoardBody, api.Board>, Subscriptions<api.BoardSubscriptionResponse, api.BoardSubscription> {
  patch(change: api.BoardPatch, options?: Sending): Promise<api.Board>;
  publish(
    events: Elements<api.BoardEvent>,
    options?: Bulk & { mode?: "each" | "batch"; messages?: "full" | "count" | "none" },
  ): Promise<api.BoardEventsResponse>;
  upsert(id: string, object: api.BoardObjectBody, options?: Sending): Promise<api.BoardEventsResponse>;
  update(id: string, change: api.BoardObjectPatch, options?: Sending): Promise<api.BoardEventsResponse>;
  deleteObject(id: string, options?: Sending): Promise<api.BoardEventsResponse>;
  object(id: string, options?: Sending): Promise<api.BoardObjectResponse>;
  objects(options?: Sending): AsyncGenerator<api.BoardObject, void>;
  top(
    question?: {
      l?: number | null | { [attribute: string]: number | null };
      r?: number | null | { [attribute: string]: number | null };
      k?: number;
      offset?: number;
      where?: { [field: string]: string | number | boolean | null };
    },
    options?: Sending,
  ): Promise<api.BoardTopResponse>;
  explain(
    event: api.BoardEvent,
    options?: Sending & { algorithm?: "sparse" | "dense"; epsilon?: number | null },
  ): Promise<api.EventExplanation>;
  register(
    subscriptions: Elements<Ranged<api.NewBoardSubscription>>,
    options?: Bulk & { lists?: boolean },
  ): Promise<api.BoardSubscriptionsResponse>;
  putSubscription(
    id: string,
    subscription: Ranged<api.BoardSubscriptionBody>,
    options?: Sending,
  ): Promise<api.BoardSubscriptionResponse>;
  patchSubscription(
    id: string,
    change: Omit<api.BoardSubscriptionPatch, "range"> & { range?: Pair | Ranges | null },
    options?: Sending,
  ): Promise<api.BoardSubscriptionResponse>;
  explainSubscription(id: string, options?: Sending): Promise<api.SubscriptionExplanation>;
  watch(id: string, options?: BoardWatchOptions): Watcher<BoardStreamEvent, api.RankedObject>;
}

export interface Matcher
  extends Resource<api.MatcherBody, api.Matcher>, Subscriptions<api.MatcherSubscriptionResponse, api.MatcherSubscription> {
  register(
    subscriptions: Elements<api.NewMatcherSubscription>,
    options?: Bulk,
  ): Promise<api.MatcherSubscriptionsResponse>;
  putSubscription(
    id: string,
    subscription: api.MatcherSubscriptionBody,
    options?: Sending,
  ): Promise<api.MatcherSubscriptionResponse>;
  patchSubscription(
    id: string,
    change: api.MatcherSubscriptionPatch,
    options?: Sending,
  ): Promise<api.MatcherSubscriptionResponse>;
  match(
    events: Elements<api.MatchEvent>,
    options?: Bulk & { k?: number; explain?: boolean; notify?: boolean },
  ): Promise<api.MatchResponse>;
  watch(id: string, options?: WatchOptions): Watcher<MatcherStreamEvent>;
}

export interface Relay
  extends Resource<api.RelayBody, api.Relay>,
    Omit<
      Subscriptions<api.RelaySubscriptionResponse, api.RelaySubscription>,
      "deleteSubscription" | "deleteSubscriptions"
    > {
  link(links: api.RelayPatch["links"], options?: Sending): Promise<api.Relay>;
  subscribe(subscriptions: Elements<api.NewRelaySubscription>, options?: Bulk): Promise<api.RelaySubscriptionsResponse>;
  putSubscription(
    id: string,
    subscription: api.RelaySubscriptionBody,
    options?: Sending,
  ): Promise<api.RelaySubscriptionResponse>;
  patchSubscription(
    id: string,
    change: api.RelaySubscriptionPatch,
    options?: Sending,
  ): Promise<api.RelaySubscriptionResponse>;
  deleteSubscription(id: string, options?: Sending): Promise<api.RelaySubscriptionDeleted>;
  deleteSubscriptions(ids: Iterable<string>, options?: Sending): Promise<api.RelaySubscriptionsDeleted>;
  commands(
    commands: Iterable<RelayCommand> | AsyncIterable<RelayCommand>,
    options?: Bulk,
  ): AsyncGenerator<{ id: string; seq: number; [field: string]: unknown }, void>;
  notify(notifications: Elements<api.Notification>, options?: Bulk): Promise<api.NotificationsResponse>;
  watch(id: string, options?: WatchOptions): Watcher<RelayStreamEvent>;
}

export type RelayCommand =
  | { op: "subscribe"; id: string; box: Ranges; link?: string | null; ttl?: number | null }
  | { op: "unsubscribe"; id: string };

export interface RankcastMap extends Resource<api.MapBody, api.Map> {
  putObjects(objects: Elements<api.NewMapObject>, options?: Bulk): Promise<api.MapObjectsResponse>;
  putObject(id: string, object: api.MapObjectBody, options?: Sending): Promise<api.MapObjectResponse>;
  patchObject(id: string, change: api.MapObjectPatch, options?: Sending): Promise<api.MapObjectResponse>;
  object(id: string, options?: Sending): Promise<api.MapObjectResponse>;
  deleteObject(id: string, options?: Sending): Promise<api.SeqResponse>;
  deleteObjects(ids: Iterable<string>, options?: Sending): Promise<api.DeletedResponse>;
  objects(options?: Sending): AsyncGenerator<api.MapObject, void>;
  top(question: api.MapTopBody, options?: Sending): Promise<api.MapTopResponse>;
  skyline(question: api.SkylineBody, options?: Sending): Promise<api.SkylineResponse>;
  moving(question: Question): Moving;
  addQueries(
    queries: Elements<api.NewStandingQuery>,
    options?: Bulk & { lists?: boolean },
  ): Promise<api.StandingQueriesResponse>;
  putQuery(id: string, query: api.StandingQueryBody, options?: Sending): Promise<api.StandingQueryResponse>;
  patchQuery(id: string, change: api.StandingQueryPatch, options?: Sending): Promise<api.StandingQueryPatchResponse>;
  query(id: string, options?: Sending): Promise<api.StandingQueryResponse>;
  deleteQuery(id: string, options?: Sending): Promise<api.SeqResponse>;
  deleteQueries(ids: Iterable<string>, options?: Sending): Promise<api.DeletedResponse>;
  queries(options?: Sending): AsyncGenerator<api.StandingQuery, void>;
  move(id: string, location: Location, options?: Sending): Promise<api.StandingQueryPatchResponse>;
  moveMany(moves: Elements<api.Move>, options?: Bulk): Promise<api.MovesResponse>;
  watch(id: string, options?: WatchOptions): Watcher<MapStreamEvent, api.Candidate & { rank: number }>;
}

export interface Feed
  extends Resource<api.FeedBody, api.Feed>, Subscriptions<api.FeedSubscriptionResponse, api.FeedSubscription> {
  post(posts: Elements<api.NewPost>, options?: Bulk): Promise<api.PostsResponse>;
  getPost(id: string, options?: Sending): Promise<api.FeedPostResponse>;
  posts(options?: Sending): AsyncGenerator<api.FeedPost, void>;
  withdraw(id: string, options?: Sending): Promise<api.SeqResponse>;
  register(
    subscriptions: Elements<api.NewFeedSubscription>,
    options?: Bulk & { lists?: boolean },
  ): Promise<api.FeedSubscriptionsResponse>;
  putSubscription(
    id: string,
    subscription: api.FeedSubscriptionBody,
    options?: Sending,
  ): Promise<api.FeedSubscriptionResponse>;
  patchSubscription(
    id: string,
    change: api.FeedSubscriptionPatch,
    options?: Sending,
  ): Promise<api.FeedSubscriptionResponse>;
  watch(id: string, options?: WatchOptions): Watcher<FeedStreamEvent, api.RankedPost>;
}

export interface JobResources {
  resources?: string[];
  engine?: "local" | "spark";
}

export interface Jobs {
  snapshot(options?: Sending): Promise<api.StartedJobResponse>;
  rebuild(what?: JobResources, options?: Sending): Promise<api.StartedJobResponse>;
  verify(what?: JobResources, options?: Sending): Promise<api.StartedJobResponse>;
  get(id: string, options?: Sending): Promise<api.JobResponse>;
  cancel(id: string, options?: Sending): Promise<api.JobResponse>;
  list(options?: Sending): AsyncGenerator<api.JobResponse, void>;
  follow(id: string, options?: Sending): AsyncGenerator<api.JobResponse, void>;
}

export interface Webhooks {
  put(name: string, about: api.WebhookBody, options?: Sending): Promise<api.WebhookResponse>;
  get(name: string, options?: Sending): Promise<api.Webhook>;
  delete(name: string, options?: Sending): Promise<api.DeletedWebhookResponse>;
  test(name: string, options?: Sending): Promise<api.WebhookTestResponse>;
  enable(name: string, options?: Sending): Promise<api.WebhookResponse>;
  list(options?: Sending): AsyncGenerator<api.Webhook, void>;
}

/** A message of a webhook is not from the service, was changed, or is too old. */
export class BadSignature extends RankcastError {}

/** The events of a message of a webhook, once its signature and its time are found to be right. */
export function verifyWebhook(
  secret: string,
  headers: Headers | Record<string, string>,
  body: string | ArrayBuffer | Uint8Array,
  options?: { tolerance?: number; now?: number },
): Promise<Record<string, unknown>[]>;

// The client

export class Rankcast {
  /** `url` may be the URLs of several nodes: an array, or a text with commas. */
  constructor(url?: string | string[], options?: RankcastOptions);
  readonly url: string;
  readonly jobs: Jobs;
  readonly webhooks: Webhooks;
  board(name: string): Board;
  matcher(name: string): Matcher;
  relay(name: string): Relay;
  map(name: string): RankcastMap;
  feed(name: string): Feed;
  boards(options?: Sending): AsyncGenerator<api.BoardSummary, void>;
  matchers(options?: Sending): AsyncGenerator<api.MatcherSummary, void>;
  relays(options?: Sending): AsyncGenerator<api.RelaySummary, void>;
  maps(options?: Sending): AsyncGenerator<api.MapSummary, void>;
  feeds(options?: Sending): AsyncGenerator<api.FeedSummary, void>;
  ticket(resource: string, ids?: string[] | null, options?: Sending & { seconds?: number }): Promise<api.TicketResponse>;
  ready(): Promise<boolean>;
  request<T = any>(
    method: string,
    path: string,
    options?: Sending & { query?: { [name: string]: string }; body?: unknown; headers?: { [name: string]: string } },
  ): Promise<T>;
  socket(): Socket;
  close(): void;
}

// The subscriber's half of the protocols

export interface Entry {
  id: string;
  values: { [attribute: string]: number };
  created?: number;
  payload?: api.Json;
}

/** The best k objects of one subscription, kept right by the tiles that reach it and by nothing else. */
export class TopKList {
  constructor(subscription: Region & { k: number; offset?: number }, rank: { attribute: string; order?: "asc" | "desc" });
  readonly entries: Entry[];
  reset(entries: Entry[]): void;
  apply(tile: api.Tile): boolean;
}

export function tileReaches(tile: api.Tile, subscription: Region): boolean;

export function applyChanges<E extends { id: string }>(
  entries: E[],
  changes: (Partial<E> & { id: string; new_rank: number | null })[],
  offset?: number,
): E[];

export function near(center: number, radius: number): [number, number];
export function near(
  center: { [attribute: string]: number },
  radius: number | { [attribute: string]: number },
): { [attribute: string]: [number, number] };

export interface Block {
  event: string;
  data: string | null;
  id: string | null;
}

/** Server-sent events from bytes that come in pieces. */
export class Parser {
  constructor(most?: number);
  feed(chunk: Uint8Array): Block[];
}

// Zones of maps

export type Metric = "euclidean" | "manhattan" | "great-circle";
export interface Circle {
  center: Location | number[];
  radius: number | null;
}
export interface Geometry {
  type: string;
  coordinates: unknown[];
}
export type AnyZone = Circle | Geometry | null;

export interface Zone {
  /** Whether (x, y) is inside for sure. */
  holds(x: number, y: number): boolean;
}

export class CircleZone implements Zone {
  constructor(circle: Circle, metric: Metric);
  holds(x: number, y: number): boolean;
}

export class PolygonZone implements Zone {
  constructor(geometry: Geometry, bounds: readonly number[]);
  holds(x: number, y: number): boolean;
}

export function zoneOf(zone: AnyZone | undefined, metric: Metric, bounds: readonly number[]): Zone;

/** A score over the objects of a map, as the service computes it. */
export class Ranking {
  constructor(score: api.ScoreBody, map: Pick<api.Map, "attributes" | "metric">);
  score(values: { [attribute: string]: number }, distance: number): number | null;
  ranked<P extends { location: number[]; values: { [attribute: string]: number }; created: number }>(
    candidates: P[],
    x: number,
    y: number,
  ): (P & { distance: number; score: number | null })[];
}

export type Question = ({ kind: "top" } & Omit<api.MapTopBody, "location" | "locations">) | { kind: "skyline" };

/** A moving client, which sends a request only where it leaves the zone of its answer. */
export class Moving {
  constructor(map: Pick<RankcastMap, "info" | "top" | "skyline">, question: Question);
  readonly moves: number;
  readonly asked: number;
  readonly saved: number;
  readonly answer: MapAnswer | null;
  readonly location: Location | null;
  move(location: Location): Promise<MapAnswer>;
  refresh(): Promise<MapAnswer | null>;
}
