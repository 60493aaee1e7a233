"""Feeds over the application: every route, what it answers, and what each refusal names."""

import asyncio
import json
from random import Random
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.api.feeds import models
from app.api.feeds.routes import posts as feed_posts
from app.errors import LogUnavailable
from app.write_path.ticks import Ticks
from tests.oracles.feed_service import FeedService, Subscribed
from tests.oracles.feeds import FeedOracle
from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient, Start

CITY = "/v1/feeds/city"
BOUNDS = [0, 0, 4, 3]
CONFIG: dict[str, Any] = {
    "window": 100,
    "bounds": BOUNDS,
    "weighting": "tfidf",
    "buffer": "cost",
    "stop_words": None,
}
P1: dict[str, Any] = {"id": "p1", "keywords": ["Ramen", "coupon"], "location": [1, 1.5], "payload": {"a": [1, "ß"]}}
P2: dict[str, Any] = {"id": "p2", "text": "The best ramen in town", "location": [4, 3]}
U1: dict[str, Any] = {"id": "u1", "keywords": ["ramen"], "location": [1, 1.5], "k": 2, "alpha": 0.5}
EMPTY = {"posts": 0, "subscriptions": 0}
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


def fields(answer: httpx.Response) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]


def stream_of(columns: dict[str, Any]) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def lines_of(items: list[Any]) -> bytes:
    return "\n".join(json.dumps(item) for item in items).encode()


@pytest.fixture
def city(client: AppClient) -> AppClient:
    """A service with a feed of two posts and a subscription; its seq is 3."""
    assert client.put(CITY, json={"window": 100, "bounds": BOUNDS}).status_code == 201
    assert client.post(f"{CITY}/subscriptions", json={"subscriptions": [U1]}).status_code == 201
    answer = client.post(f"{CITY}/posts", json={"posts": [P1, P2]})
    results = [{"id": "p1", "reached": 1}, {"id": "p2", "reached": 1}]
    assert (answer.status_code, answer.json()) == (201, {"seq": 3, "results": results})
    return client


# --- feeds ------------------------------------------------------------------------------------------------------------


def test_a_feed_is_made_shown_listed_and_put_again(client: AppClient) -> None:
    shown = {"seq": 0, "name": "city", **CONFIG, "posts": 0, "subscriptions": 0}
    made = client.put(CITY, json={"window": 100, "bounds": BOUNDS})
    assert (made.status_code, made.json()) == (201, shown)
    assert client.get(CITY).json() == shown
    assert (again := client.put(CITY, json=shown)).status_code == 200
    assert again.json() == shown
    assert client.put("/v1/feeds/town", json={"window": {"seconds": 0.5}, "bounds": BOUNDS}).status_code == 201
    assert client.get("/v1/feeds/town").json()["window"] == {"seconds": 0.5}
    listed = client.get("/v1/feeds").json()
    assert [item["name"] for item in listed["items"]] == ["city", "town"]
    assert "seq" not in listed["items"][0]
    assert client.delete(CITY).json() == {"seq": 1}
    assert client.get(CITY).status_code == 404
    assert client.put(CITY, json=CONFIG).json()["seq"] == 2


OTHER_CONFIGURATIONS: Any = [
    ({"window": 101}, "window"),
    ({"bounds": [0, 0, 4, 4]}, "bounds"),
    ({"weighting": "given"}, "weighting"),
    ({"buffer": "kmax"}, "buffer"),
    ({"stop_words": []}, "stop_words"),
]


def test_another_configuration_is_refused(city: AppClient) -> None:
    for change, field in OTHER_CONFIGURATIONS:
        refused = city.put(CITY, json={**CONFIG, **change})
        assert (refused.status_code, refused.json()["type"], fields(refused)) == (409, "/problems/different", [field])
        assert city.get(CITY).json()["seq"] == 3


BAD_CONFIGURATIONS: Any = [
    ({"window": 0}, "window"),
    ({"window": 10_000_001}, "window"),
    ({"window": 1.5}, "window"),
    ({"window": True}, "window"),
    ({"window": None}, "window"),
    ({"window": {"seconds": 0}}, "window"),
    ({"window": {"seconds": 1e10}}, "window"),
    ({"window": {"seconds": 5, "posts": 5}}, "window"),
    ({"bounds": [0, 0, 1]}, "bounds"),
    ({"bounds": [0, 0, 1, 1, 1]}, "bounds"),
    ({"bounds": [0, 0, 0, 1]}, "bounds[2]"),
    ({"bounds": [0, 2, 1, 1]}, "bounds[3]"),
    ({"bounds": [0, 0, 1, 1e301]}, "bounds[3]"),
    ({"weighting": "bm25"}, "weighting"),
    ({"buffer": "none"}, "buffer"),
    ({"stop_words": [""]}, "stop_words[0]"),
    ({"stop_words": ["a", 1]}, "stop_words[1]"),
    ({"stop_words": ["ß" * 65]}, "stop_words[0]"),
    ({"stop_words": "the"}, "stop_words"),
    ({"more": 1}, "more"),
]


def test_a_bad_configuration_is_named(client: AppClient) -> None:
    for change, start in BAD_CONFIGURATIONS:
        refused = client.put(CITY, json={**CONFIG, **change})
        assert refused.status_code == 422
        assert fields(refused)
        assert all(field.startswith(start) for field in fields(refused))
        assert client.get(CITY).status_code == 404


# --- posts ------------------------------------------------------------------------------------------------------------


def test_posts_are_shown_with_their_words(city: AppClient) -> None:
    first = {"id": "p1", "location": [1, 1.5], "keywords": ["ramen", "coupon"], "payload": {"a": [1, "ß"]}}
    second = {"id": "p2", "location": [4, 3], "keywords": ["best", "ramen", "town"]}
    assert city.get(f"{CITY}/posts/p1").json() == {"seq": 3, **first}
    assert city.get(f"{CITY}/posts").json() == {"seq": 3, "items": [first, second], "next": None}
    page = city.get(f"{CITY}/posts?limit=1").json()
    assert page["items"] == [first]
    assert city.get(f"{CITY}/posts", params={"cursor": page["next"]}).json()["items"] == [second]
    assert city.get(f"{CITY}/posts/p3").status_code == 404


def test_a_list_is_scored_by_nearness_and_words(city: AppClient) -> None:
    shown = city.get(f"{CITY}/subscriptions/u1").json()
    assert {key: shown[key] for key in ("seq", *U1)} == {"seq": 3, **U1}
    first, second = shown["list"]
    distance = (3**2 + 1.5**2) ** 0.5
    assert first == {
        "rank": 1,
        "id": "p1",
        "score": pytest.approx(0.5 + 0.5 * 2**-0.5, rel=1e-12),
        "location": [1, 1.5],
        "keywords": ["ramen", "coupon"],
        "payload": {"a": [1, "ß"]},
    }
    assert (second["rank"], second["id"], "payload" in second) == (2, "p2", False)
    assert second["score"] == pytest.approx(0.5 * (1 - distance / 5) + 0.5 * 3**-0.5, rel=1e-12)


def test_a_withdrawn_post_makes_room(city: AppClient) -> None:
    assert city.delete(f"{CITY}/posts/p1").json() == {"seq": 4}
    assert city.delete(f"{CITY}/posts/p1").status_code == 404
    assert [entry["id"] for entry in city.get(f"{CITY}/subscriptions/u1").json()["list"]] == ["p2"]
    assert city.post(f"{CITY}/posts", json={"posts": [P1]}).json()["seq"] == 5


def test_an_id_is_taken_while_its_post_is_in_the_window(client: AppClient) -> None:
    client.put(CITY, json={**CONFIG, "window": 2})
    here = {"location": [0, 0], "keywords": ["a"]}

    def post(*ids: str) -> httpx.Response:
        return client.post(f"{CITY}/posts", json={"posts": [{"id": id, **here} for id in ids]})

    assert post("p1", "p2").json()["seq"] == 2
    refused = post("p3", "p2")
    assert (refused.status_code, fields(refused)) == (409, ["posts[1].id"])
    assert fields(post("p3", "p3")) == ["posts[1].id"]
    assert post("p3", "p1", "p2").json()["seq"] == 5, "each is free when it comes"
    assert [item["id"] for item in client.get(f"{CITY}/posts").json()["items"]] == ["p1", "p2"]
    made = client.post(f"{CITY}/posts", json={"posts": [here, here]}).json()["results"]
    assert len({result["id"] for result in made}) == 2


DEEP = json.loads("[" * 150 + "]" * 150)


BAD_POSTS: Any = [
    ({"id": ""}, "id"),
    ({"id": "a b"}, "id"),
    ({"id": 1}, "id"),
    ({"location": None}, "location"),
    ({"location": [1]}, "location"),
    ({"location": [1, 2, 3]}, "location"),
    ({"location": [1, 1e301]}, "location[1]"),
    ({"location": [1, 10**400]}, "location[1]"),
    ({"location": ["1", 2]}, "location[0]"),
    ({"location": [True, 2]}, "location[0]"),
    ({"keywords": None}, "keywords"),
    ({"keywords": "ramen"}, "keywords"),
    ({"keywords": 5}, "keywords"),
    ({"keywords": [1]}, "keywords[0]"),
    ({"keywords": ["a", None]}, "keywords[1]"),
    ({"keywords": ["a", ["b"]]}, "keywords[1]"),
    ({"keywords": DEEP}, "keywords[0]"),
    ({"keywords": [""]}, "keywords"),
    ({"keywords": ["a" * 129]}, "keywords"),
    ({"keywords": ["ß" * 65]}, "keywords"),
    ({"keywords": ["a"] * 1001}, "keywords"),
    ({"keywords": [f"w{i}" for i in range(100_000)]}, "keywords"),
    ({"keywords": [0] * 100_000}, "keywords"),
    ({"keywords": {f"w{i}": 1 for i in range(1001)}}, "keywords"),
    ({"keywords": {"a": 0}}, "keywords.a"),
    ({"keywords": {"a": -1}}, "keywords.a"),
    ({"keywords": {"a": 1e301}}, "keywords.a"),
    ({"keywords": {"a": 10**400}}, "keywords.a"),
    ({"keywords": {"a": True}}, "keywords.a"),
    ({"keywords": {"a": None}}, "keywords.a"),
    ({"keywords": {"a": {"b": 1}}}, "keywords.a"),
    ({"keywords": {"": 1}}, "keywords"),
    ({"keywords": {"A": 1e300, "a": 1e300}}, "keywords"),
    ({"text": "both"}, "text"),
    ({"payload": "x" * 5000}, "payload"),
    ({"payload": DEEP}, "payload"),
    ({"more": 1}, "more"),
]


def test_a_bad_post_is_named_and_nothing_changed(city: AppClient) -> None:
    good = {"id": "q", "keywords": ["a"], "location": [1, 2]}
    for change, field in BAD_POSTS:
        seq = city.get(CITY).json()["seq"]
        for one in (change, {**change, "id": change.get("id", "r")}):
            refused = city.post(f"{CITY}/posts", json={"posts": [good, {**good, **one}]})
            assert (refused.status_code, fields(refused)) == (422, [f"posts[1].{field}"])
        lines = city.post(
            f"{CITY}/posts", content=lines_of([good, {**good, "id": "r", **change}]), headers=sent(NDJSON)
        )
        assert (lines.status_code, fields(lines)) == (422, [f"posts[1].{field}"])
        assert city.get(CITY).json()["seq"] == seq
        skipped = city.post(f"{CITY}/posts", json={"on_error": "skip", "posts": [{**good, "id": "r", **change}, good]})
        assert skipped.json()["results"] == [{"index": 1, "id": "q", "reached": 0}]
        assert [(error["index"], error["field"]) for error in skipped.json()["errors"]] == [(0, f"posts[0].{field}")]
        assert city.delete(f"{CITY}/posts/q").json() == {"seq": seq + 2}


def sent(kind: str) -> dict[str, str]:
    return {"Content-Type": kind}


BAD_TEXTS: Any = [
    ({"text": 5}, "text"),
    ({"text": None}, "text"),
    ({"text": "a" * (models.MOST_TEXT + 1)}, "text"),
    ({"text": "b " * 1001}, "text"),
    ({"text": "x" * 129}, "text"),
    ({}, "keywords"),
]


def test_a_bad_text_is_named(city: AppClient) -> None:
    for change, field in BAD_TEXTS:
        refused = city.post(f"{CITY}/posts", json={"posts": [{"location": [1, 2], **change}]})
        assert (refused.status_code, fields(refused)) == (422, [f"posts[0].{field}"])


NOT_JSON: Any = ['"\\ud800"', '"a\\udc00b"', "NaN", "[Infinity]", '"a']


def test_what_is_not_json_is_malformed(city: AppClient) -> None:
    for body in NOT_JSON:
        text = f'{{"posts":[{{"keywords":[{body}],"location":[1,2]}}]}}'
        assert city.post(f"{CITY}/posts", content=text, headers=sent("application/json")).status_code == 400
        assert city.post(f"{CITY}/posts", content=text[10:-2], headers=sent(NDJSON)).status_code == 400
        assert city.get(CITY).json()["seq"] == 3


ODD_WORDS: Any = ['"', "\\", "\n", "\x00", "\x7f", "\u2028", "𝄞", "\uffff", "a b", "<script>", "%"]


def test_a_keyword_may_be_any_text(city: AppClient) -> None:
    for word in ODD_WORDS:
        for shown in ([word, "plain"], {word: 2.5}):
            where = f"{CITY}/subscriptions/any"
            put = city.put(where, json={"keywords": shown, "location": [1, 1]})
            assert put.status_code in (200, 201)
            assert put.json()["keywords"] == shown
            posted = city.post(f"{CITY}/posts", json={"posts": [{"keywords": shown, "location": [1, 1]}]}).json()
            assert posted["results"][0]["reached"] == 1
            assert city.get(where).json()["list"][0]["keywords"] == shown


def test_words_are_casefolded_and_weights_of_one_word_added(city: AppClient) -> None:
    words = {"keywords": {"STRASSE": 1, "straße": 2, "b": 1e-300}, "location": [-0.0, 1]}
    city.post(f"{CITY}/posts", json={"posts": [{"id": "w", **words}]})
    text = city.get(f"{CITY}/posts/w").text
    assert json.loads(text)["keywords"] == {"strasse": 3, "b": 1e-300}
    assert '"location":[0,1]' in text


def test_a_post_may_be_without_words(city: AppClient) -> None:
    posts = [{"text": "the and of", "location": [1, 1]}, {"keywords": [], "location": [1, 1]}]
    answer = city.post(f"{CITY}/posts", json={"posts": posts}).json()
    assert [result["reached"] for result in answer["results"]] == [0, 0]
    refused = city.post(f"{CITY}/subscriptions", json={"subscriptions": posts})
    assert (refused.status_code, fields(refused)) == (422, ["subscriptions[0].text", "subscriptions[1].keywords"])


def test_stop_words_are_those_of_the_feed(client: AppClient) -> None:
    client.put(CITY, json={**CONFIG, "stop_words": ["RAMEN", "ramen"]})
    assert client.get(CITY).json()["stop_words"] == ["ramen"]
    client.post(f"{CITY}/posts", json={"posts": [{"id": "p", "text": "The ramen", "location": [1, 1]}]})
    assert client.get(f"{CITY}/posts/p").json()["keywords"] == ["the"]


def test_the_three_kinds_of_body_say_the_same(client: AppClient) -> None:
    words: list[Any] = [["a", "B", "a"], {"c": 2.0, "a": 0.5}, None, []]
    texts = [None, None, "Some text, and more", None]
    posts = [
        {"id": f"p{i}", "location": [i, 1.5], **({"text": text} if text else {"keywords": shown})}
        for i, (shown, text) in enumerate(zip(words, texts, strict=True))
    ]
    posts[1]["payload"] = {"x": 1}
    columns = {
        "id": [post["id"] for post in posts],
        "x": [float(i) for i in range(4)],
        "y": [1.5] * 4,
        "text": texts,
        "keywords": pa.array([None if shown is None else list(shown) for shown in words], pa.list_(pa.string())),
        "weights": pa.array([None, [2.0, 0.5], None, None], pa.list_(pa.float32())),
        "payload": [None, '{"x": 1}', None, None],
    }
    subscriptions = [
        {**post, "id": f"s{i}", "k": i + 1, "alpha": i / 4, "ttl": 60.5} for i, post in enumerate(posts[:3])
    ]
    for one in subscriptions:
        one.pop("payload", None)
    asking = {name: column[:3] for name, column in columns.items() if name != "payload"}
    asking |= {"id": ["s0", "s1", "s2"], "k": [1, 2, 3], "alpha": [0.0, 0.25, 0.5], "ttl": [60.5] * 3}
    said = []
    for name, kind, subscribe, post in (
        ("a", "application/json", json.dumps({"subscriptions": subscriptions}), json.dumps({"posts": posts})),
        ("b", NDJSON, lines_of(subscriptions), lines_of(posts)),
        ("c", ARROW, stream_of(asking), stream_of(columns)),
    ):
        path = f"/v1/feeds/{name}"
        client.put(path, json=CONFIG)
        made = client.post(f"{path}/subscriptions", content=subscribe, headers=sent(kind))
        assert made.status_code == 201, made.text
        posted = client.post(f"{path}/posts", content=post, headers=sent(kind))
        assert posted.status_code == 201, posted.text
        lists = [client.get(f"{path}/subscriptions/s{i}").json() for i in range(3)]
        said.append((made.json(), posted.json(), client.get(f"{path}/posts").json(), lists))
    assert said[0] == said[1] == said[2]
    assert [result["reached"] for result in said[0][1]["results"]] == [2, 1, 1, 0]


def test_arrow_names_bad_cells(city: AppClient) -> None:
    strings = pa.list_(pa.string())
    good: dict[str, Any] = {"x": [1.0], "y": [1.0], "keywords": pa.array([["a"]], strings)}
    for change, field in (
        ({"x": [float("nan")]}, "posts[0].location[0]"),
        ({"y": pa.array([None], pa.float64())}, "posts[0].location[1]"),
        ({"x": ["a"]}, "x"),
        ({"keywords": pa.array([[None]], strings)}, "posts[0].keywords[0]"),
        ({"keywords": pa.array([[""]], strings)}, "posts[0].keywords"),
        ({"keywords": pa.array([None], strings)}, "posts[0].keywords"),
        ({"keywords": pa.array([["a"] * 1_001], strings)}, "posts[0].keywords"),
        ({"keywords": pa.array([["a"] * 1_001], strings), "weights": [[1.0] * 1_001]}, "posts[0].keywords"),
        ({"keywords": pa.FixedSizeListArray.from_arrays(pa.nulls(100_000), 100_000)}, "posts[0].keywords"),
        ({"keywords": ["a"]}, "keywords"),
        ({"keywords": [[1]]}, "keywords"),
        ({"weights": [[1.0, 2.0]]}, "posts[0].weights"),
        ({"weights": [[0.0]]}, "posts[0].weights[0]"),
        ({"weights": [[float("nan")]]}, "posts[0].weights[0]"),
        ({"weights": [["a"]]}, "weights"),
        ({"text": ["a"]}, "posts[0].text"),
        ({"id": ["a b"]}, "posts[0].id"),
        ({"payload": ["{"]}, "posts[0].payload"),
        ({"more": [1]}, "more"),
        ({"keywords": None, "text": ["a" * 20_000]}, "posts[0].text"),
    ):
        columns = {name: column for name, column in {**good, **change}.items() if column is not None}
        refused = city.post(f"{CITY}/posts", content=stream_of(columns), headers=sent(ARROW))
        assert (refused.status_code, fields(refused)) == (422, [field]), change
    for change, field in (
        ({"k": [0]}, "subscriptions[0].k"),
        ({"k": [1001]}, "subscriptions[0].k"),
        ({"k": [1.5]}, "k"),
        ({"alpha": [-0.1]}, "subscriptions[0].alpha"),
        ({"alpha": [1.1]}, "subscriptions[0].alpha"),
        ({"ttl": [0.0]}, "subscriptions[0].ttl"),
    ):
        refused = city.post(f"{CITY}/subscriptions", content=stream_of({**good, **change}), headers=sent(ARROW))
        assert (refused.status_code, fields(refused)) == (422, [field]), change
    assert city.get(CITY).json()["seq"] == 3


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_a_subscription_is_made_changed_listed_and_deleted(city: AppClient) -> None:
    where = f"{CITY}/subscriptions/u2"
    made = city.put(where, json={"text": "Best of towns", "location": [4, 3]})
    shown = {"id": "u2", "keywords": ["best", "towns"], "location": [4, 3], "k": 10, "alpha": 0.5}
    assert made.status_code == 201
    assert {key: value for key, value in made.json().items() if key != "list"} == {"seq": 4, **shown}
    assert [entry["id"] for entry in made.json()["list"]] == ["p2"]
    assert city.put(where, json=city.get(where).json()).json() == city.get(where).json()
    assert city.get(where).json()["seq"] == 4, "what changes nothing takes no seq"
    patched = city.patch(where, json={"keywords": {"coupon": 2}, "k": 1, "ttl": 60})
    assert patched.json()["keywords"] == {"coupon": 2}
    assert [entry["id"] for entry in patched.json()["list"]] == ["p1"]
    assert patched.json()["ttl"] == 60
    assert city.patch(where, json={"ttl": None}).json()["seq"] == 6
    assert "ttl" not in city.get(where).json()
    items = city.get(f"{CITY}/subscriptions").json()["items"]
    assert [item["id"] for item in items] == ["u1", "u2"]
    assert all("list" not in item for item in items)
    assert city.patch(f"{CITY}/subscriptions/u3", json={"k": 1}).status_code == 404
    assert city.delete(where).json() == {"seq": 7}
    assert city.delete(where).status_code == 404
    gone = city.post(f"{CITY}/subscriptions/delete", json={"ids": ["u1", "u9"]})
    assert gone.json() == {"seq": 8, "deleted": 1}


BAD_SUBSCRIPTIONS: Any = [
    ({"k": 0}, "k"),
    ({"k": 1001}, "k"),
    ({"k": 1.5}, "k"),
    ({"k": True}, "k"),
    ({"alpha": -0.1}, "alpha"),
    ({"alpha": 1.1}, "alpha"),
    ({"alpha": "1"}, "alpha"),
    ({"ttl": 0}, "ttl"),
    ({"keywords": []}, "keywords"),
    ({"keywords": [7]}, "keywords[0]"),
    ({"keywords": {}}, "keywords"),
    ({"location": [1, 2, 3]}, "location"),
    ({"id": "other name"}, "id"),
    ({"more": 1}, "more"),
]


def test_a_bad_subscription_is_named(city: AppClient) -> None:
    for change, field in BAD_SUBSCRIPTIONS:
        good = {"keywords": ["a"], "location": [1, 2]}
        refused = city.put(f"{CITY}/subscriptions/u1", json={**good, **change})
        assert (refused.status_code, fields(refused)) == (422, [field])
        many = city.post(f"{CITY}/subscriptions", json={"subscriptions": [good, {**good, **change}]})
        assert (many.status_code, fields(many)) == (422, [f"subscriptions[1].{field}"])
        patched = city.patch(f"{CITY}/subscriptions/u1", json=change)
        assert (patched.status_code, fields(patched)) == (422, [field])
        assert city.get(CITY).json()["seq"] == 3


def test_lists_are_answered_where_they_are_asked_for(city: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [{"id": f"v{i}", "keywords": ["ramen"], "location": [i, 0]} for i in range(3)]

    def ask(**more: Any) -> list[bool]:
        body = {"subscriptions": [{**one, "id": None} for one in some], **more}
        made = city.post(f"{CITY}/subscriptions", json=body).json()["subscriptions"]
        return ["list" in one for one in made]

    assert ask() == [True] * 3
    assert ask(lists=False) == [False] * 3
    monkeypatch.setattr("app.api.subscriptions.LISTS", 2)
    assert ask() == [False] * 3
    assert ask(lists=True) == [True] * 3
    monkeypatch.setattr("app.api.subscriptions.PORTION", 1)
    made = city.post(f"{CITY}/subscriptions", json={"subscriptions": some, "lists": True}).json()
    for one in made["subscriptions"]:
        assert city.get(f"{CITY}/subscriptions/{one['id']}").json() == {"seq": made["seq"], **one}


# --- retries, time, streams, keys -------------------------------------------------------------------------------------


def test_a_retry_gets_the_first_answer_without_lists(city: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {"id": "b d", "keywords": ["ramen"], "location": [1, 1]}
    body = {"on_error": "skip", "posts": [bad, {**P1, "id": "p3"}, P2, {**P1, "id": "p4"}]}
    key = {"Idempotency-Key": "k1"}
    first = city.post(f"{CITY}/posts", json=body, headers=key)
    assert [result["index"] for result in first.json()["results"]] == [1, 3]
    again = city.post(f"{CITY}/posts", json=body, headers=key)
    assert (again.status_code, again.json()) == (201, {**first.json(), "replayed": True})
    one = {"text": "ramen", "location": [1, 1]}
    for name, method, path, asked in (
        ("k2", "PUT", "/subscriptions/u7", one),
        ("k3", "POST", "/subscriptions", {"subscriptions": [{**U1, "id": "u8"}]}),
    ):
        key = {"Idempotency-Key": name}
        first, again = (city.request(method, CITY + path, json=asked, headers=key) for _ in range(2))
        expected = {name: value for name, value in first.json().items() if name != "list"}
        for one in expected.get("subscriptions", []):
            del one["list"]
        assert again.json() == {**expected, "replayed": True}
    monkeypatch.setattr(feed_posts, "KEPT", 1)
    body, key = {"posts": [{**P1, "id": "p5"}, {**P1, "id": "p6"}]}, {"Idempotency-Key": "k4"}
    first = city.post(f"{CITY}/posts", json=body, headers=key).json()
    assert city.post(f"{CITY}/posts", json=body, headers=key).json() == {"seq": first["seq"], "replayed": True}


def test_a_window_of_time_loses_what_is_old_by_a_logged_tick(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    at = 1_000_000
    monkeypatch.setattr("app.api.feeds.parsing.posts.now", lambda: at)
    # The chore itself goes by a clock that stands before all posts.
    monkeypatch.setattr("app.write_path.ticks.now", lambda: 0)
    running = start()
    client, clock = running.client, Ticks(running.service.feeds, lambda: at)

    async def look() -> int:
        due = clock.check()
        assert len(clock.check()) == len(due), "one at a time"
        await asyncio.gather(*due)
        return len(due)

    client.put("/v1/feeds/counted", json=CONFIG)
    client.post("/v1/feeds/counted/posts", json={"posts": [P1]})
    client.put(CITY, json={**CONFIG, "window": {"seconds": 1}})
    client.put(f"{CITY}/subscriptions/u1", json=U1)
    assert running.call(look) == 0, "an empty window"
    assert client.post(f"{CITY}/posts", json={"posts": [P1]}).json()["seq"] == 2
    at += 999
    assert client.post(f"{CITY}/posts", json={"posts": [P2]}).json()["seq"] == 3
    assert running.call(look) == 0
    assert [entry["id"] for entry in client.get(f"{CITY}/subscriptions/u1").json()["list"]] == ["p1", "p2"]
    at += 1
    assert running.call(look) == 1
    shown = client.get(f"{CITY}/subscriptions/u1").json()
    assert (shown["seq"], [entry["id"] for entry in shown["list"]]) == (4, ["p2"])
    assert client.get(f"{CITY}/posts/p1").status_code == 404
    assert running.call(look) == 0
    at += 999
    assert running.call(look) == 1
    assert client.get(CITY).json()["posts"] == 0
    assert client.get("/v1/feeds/counted").json()["posts"] == 1
    text = client.get("/metrics").text
    assert 'rankcast_changes_total{command="Tick",resource="feeds/city"} 2.0' in text


def test_a_tick_that_cannot_be_logged_is_made_later(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.ticks.now", lambda: 0)
    running = start()
    client, clock = running.client, Ticks(running.service.feeds, lambda: 10**15)
    client.put(CITY, json={**CONFIG, "window": {"seconds": 1}})
    client.post(f"{CITY}/posts", json={"posts": [P1]})

    async def look() -> None:
        await asyncio.gather(*clock.check())

    def away(*_: Any) -> None:
        raise LogUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(running.service.stores.log, "append", away)
        running.call(look)
        assert client.get(CITY).json()["posts"] == 1
    running.call(look)
    assert client.get(CITY).json() == {"seq": 2, "name": "city", **CONFIG, "window": {"seconds": 1}, **EMPTY}


def test_a_random_history_is_what_brute_force_says(client: AppClient) -> None:
    draw = Random(5)
    config = {**CONFIG, "window": 80}
    client.put(CITY, json=config)
    model = FeedService(FeedOracle((0.0, 0.0, 4.0, 3.0), posts=80, tfidf=True))
    words = [*"abcdefgh"]

    def some() -> Any:
        chosen = draw.choices(words, k=draw.randrange(1, 5))
        return chosen if draw.random() < 0.7 else {word: draw.choice([1.0, 2.5]) for word in chosen}

    def place() -> tuple[float, float]:
        return draw.uniform(-1, 5), draw.uniform(-1, 4)

    for n in range(60):
        if draw.random() < 0.3:
            id, shown, where, k, alpha = f"s{draw.randrange(8)}", some(), place(), draw.randrange(1, 6), draw.random()
            asked = Subscribed(shown, where, k, alpha, None)
            model.set(id, asked)
            body = {"keywords": shown, "location": where, "k": k, "alpha": alpha}
            assert client.put(f"{CITY}/subscriptions/{id}", json=body).json()["seq"] == model.seq
        elif draw.random() < 0.1 and model.posts:
            id = draw.choice(sorted(model.posts))
            model.withdraw(id)
            assert client.delete(f"{CITY}/posts/{id}").json()["seq"] == model.seq
        else:
            posts = [(f"p{n}-{i}", some(), place()) for i in range(draw.randrange(1, 8))]
            reached = [model.post(id, shown, where, 0, None) for id, shown, where in posts]
            body = {"posts": [{"id": id, "keywords": shown, "location": where} for id, shown, where in posts]}
            answer = client.post(f"{CITY}/posts", json=body).json()
            assert (answer["seq"], [result["reached"] for result in answer["results"]]) == (model.seq, reached)
        for id, expected in model.lists().items():
            found = client.get(f"{CITY}/subscriptions/{id}").json()["list"]
            assert [(entry["id"], entry["score"]) for entry in found] == [(post.id, score) for post, score in expected]
    assert model.oracle.came > 64, "an epoch began"


def test_what_was_done_is_counted(city: AppClient) -> None:
    text = city.get("/metrics").text
    assert 'rankcast_changes_total{command="Post",resource="feeds/city"} 2.0' in text
    assert 'rankcast_changes_total{command="AddSubscriptions",resource="feeds/city"} 1.0' in text


NOT_FOR_FEEDS: Any = ["form=tiles", "old=true", "squash=2", "form=x"]


def test_streams_of_feeds_have_changes_only(city: AppClient) -> None:
    for query in NOT_FOR_FEEDS:
        refused = city.get(f"{CITY}/subscriptions/u1/stream?{query}")
        assert (refused.status_code, fields(refused)) == (422, [query.partition("=")[0]])


def test_scopes_of_feeds(make_client: MakeClient) -> None:
    client = make_client()
    admin = client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()["key"]
    keys = {}
    for scope in ("feeds:read", "feeds:subscribe", "feeds:publish", "feeds:write", "maps:write"):
        made = client.post(
            "/v1/admin/keys", json={"name": scope, "scopes": [scope]}, headers={"Authorization": f"Bearer {admin}"}
        )
        keys[scope] = {"Authorization": f"Bearer {made.json()['key']}"}
    for method, path, body, needs in (
        ("PUT", "", CONFIG, "feeds:write"),
        ("GET", "", None, "feeds:read"),
        ("POST", "/posts", {"posts": [P1]}, "feeds:publish"),
        ("GET", "/posts", None, "feeds:read"),
        ("GET", "/posts/p1", None, "feeds:read"),
        ("PUT", "/subscriptions/u1", U1, "feeds:subscribe"),
        ("PATCH", "/subscriptions/u1", {"k": 1}, "feeds:subscribe"),
        ("GET", "/subscriptions/u1", None, "feeds:read"),
        ("GET", "/subscriptions", None, "feeds:read"),
        ("POST", "/subscriptions/delete", {"ids": []}, "feeds:subscribe"),
        ("DELETE", "/subscriptions/u1", None, "feeds:subscribe"),
        ("DELETE", "/posts/p1", None, "feeds:publish"),
        ("DELETE", "", None, "feeds:write"),
    ):
        for scope, key in sorted(keys.items(), key=lambda pair: pair[0] == needs):
            included = scope == "feeds:write" or (scope == "feeds:subscribe" and needs == "feeds:read")
            if included and scope != needs and method != "GET":
                continue  # another key has it done already
            status = client.request(method, CITY + path, json=body, headers=key).status_code
            assert (status < 300) if scope == needs or included else (status == 403), (method, path, scope, status)
