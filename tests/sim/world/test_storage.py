"""What is in the carts' redis, who may read it, and what its loss means."""

from __future__ import annotations

import re
from typing import Any

SESSION = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def redis(lab: Any, *words: str) -> str:
    pod = lab.refs[lab.pods("redis-cart")[0]]
    done = lab.world.exec(pod, ["redis-cli", *words], b"", lab.now)
    return (done.stdout + done.stderr).decode().rstrip("\n")


def carts(lab: Any) -> list[str]:
    return [line for line in redis(lab, "KEYS", "*").splitlines() if line]


def test_carts_are_keys_and_removing_one_empties_the_cart(shop: Any) -> None:
    keys = carts(shop)
    assert keys and all(SESSION.fullmatch(key) for key in keys)
    assert redis(shop, "DBSIZE") == str(len(keys))
    assert keys[0] in redis(shop, "HGET", keys[0], "cart")
    assert redis(shop, "DEL", keys[0]) == "1"
    assert set(carts(shop)) == set(keys) - {keys[0]}
    assert redis(shop, "FLUSHALL") == "OK"
    assert carts(shop) == []
    redis(shop, "SET", "note", "x")
    shop.advance(120)
    assert "note" in carts(shop) and len(carts(shop)) > 1


def test_a_restarted_store_has_lost_the_carts(shop: Any) -> None:
    assert carts(shop)
    shop.remove(shop.pods("redis-cart")[0])
    shop.app("redis-cart", 1)
    assert carts(shop) == []


def test_a_login_that_is_asked_for_keeps_new_connections_out(shop: Any) -> None:
    assert redis(shop, "ACL", "LIST") == "user default on nopass sanitize-payload ~* &* +@all"
    assert redis(shop, "CONFIG", "SET", "requirepass", "secret") == "OK"
    assert redis(shop, "PING") == "NOAUTH Authentication required."
    assert "PONG" in redis(shop, "-a", "secret", "PING")
    assert "WRONGPASS" in redis(shop, "-a", "wrong", "PING")

    def failures() -> int:
        return sum(n for k, n in shop.spans(service_name="frontend").items() if k[3] == "ERROR")

    before = failures()
    shop.advance(30)
    assert failures() == before  # open connections keep their login
    shop.remove(shop.pods("cartservice")[0])
    shop.app("cartservice", 1)
    shop.slice("cartservice", 7070)
    shop.advance(60)
    assert failures() > before
    assert any("NOAUTH Returned" in line for line in shop.logs(shop.pods("cartservice")[0]))
    assert "OK" in redis(shop, "-a", "secret", "ACL", "SETUSER", "default", "on", "nopass", "~*", "+@all")
    shop.advance(90)
    after = failures()
    shop.advance(60)
    assert failures() == after


def test_acl_commands(shop: Any) -> None:
    assert redis(shop, "ACL", "SETUSER", "cart", "on", ">changeme", "~*", "+@all") == "OK"
    assert redis(shop, "ACL", "USERS") == "cart\ndefault"
    assert "PONG" in redis(shop, "--user", "cart", "-a", "changeme", "PING")
    assert redis(shop, "ACL", "WHOAMI") == "default"
    assert redis(shop, "ACL", "DELUSER", "cart") == "1"
    assert redis(shop, "ACL", "SETUSER", "x", "what?").startswith("ERR Error in ACL SETUSER modifier")
    assert redis(shop, "ACL", "NOPE").startswith("ERR unknown subcommand")
