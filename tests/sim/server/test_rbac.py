"""Who may do what: roles, messages, escalation, impersonation, tokens."""

from __future__ import annotations

import pytest

from aiopslab.sim.core.api import ApiError, WriteOptions
from aiopslab.sim.core.ports import Principal
from aiopslab.sim.core.rbac import Action

GROUP = "rbac.authorization.k8s.io"
ALICE = Principal("alice", ("system:authenticated",))


@pytest.fixture
def rbac(api, options):
    """Alice reads pods and their logs in ``default``, one ConfigMap, and may create roles."""
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"]},
        {"apiGroups": [GROUP], "resources": ["roles", "rolebindings"], "verbs": ["create"]},
    ]
    api.create(f"{GROUP}/roles", "default", {"metadata": {"name": "r"}, "rules": rules}, options)
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "alice", "apiGroup": GROUP},
            {"kind": "Group", "name": "sre", "apiGroup": GROUP},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
        ],
    }
    api.create(f"{GROUP}/rolebindings", "default", binding, options)
    return api.admission.rbac


@pytest.mark.parametrize(
    ("user", "action", "allowed"),
    [
        (ALICE, Action("list", "", "pods", "", "default"), True),
        (ALICE, Action("get", "", "pods", "log", "default", "p"), True),
        (ALICE, Action("get", "", "pods", "exec", "default", "p"), False),
        (ALICE, Action("list", "", "pods", "", "other"), False),
        (ALICE, Action("list", "", "pods"), False),
        (ALICE, Action("delete", "", "pods", "", "default"), False),
        (ALICE, Action("get", "", "configmaps", "", "default", "one"), True),
        (ALICE, Action("get", "", "configmaps", "", "default", "two"), False),
        (ALICE, Action("list", "", "configmaps", "", "default"), False),
        (ALICE, Action("get", path="/healthz"), True),
        (ALICE, Action("get", path="/apis/apps/v1"), True),
        (ALICE, Action("get", path="/metrics"), False),
        (Principal("bob", ("sre",)), Action("list", "", "pods", "", "default"), True),
        (Principal("system:serviceaccount:default:robot"), Action("list", "", "pods", "", "default"), True),
        (Principal("root", ("system:masters",)), Action("delete", "any", "thing"), True),
    ],
)
def test_decisions(rbac, user, action, allowed):
    assert rbac.allows(user, action) is allowed


def test_nobody_grants_more_than_he_holds(api, rbac):
    opts = WriteOptions("test", user=ALICE)
    small = {"metadata": {"name": "small"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    api.create(f"{GROUP}/roles", "default", small, opts)
    big = {"metadata": {"name": "big"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]}
    with pytest.raises(ApiError) as error:
        api.create(f"{GROUP}/roles", "default", big, opts)
    assert error.value.message.endswith('{APIGroups:[""], Resources:["secrets"], Verbs:["*"]}')
    admin = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": GROUP}
    binding = {"metadata": {"name": "x"}, "roleRef": admin, "subjects": []}
    with pytest.raises(ApiError, match="is attempting to grant RBAC permissions not currently held"):
        api.create(f"{GROUP}/rolebindings", "default", binding, opts)


async def test_forbidden_messages(client, rbac):
    core = 'in API group "" in the namespace "default"'
    asks = {
        ("GET", "/api/v1/namespaces/default/secrets"):
            f'secrets is forbidden: User "alice" cannot list resource "secrets" {core}',
        ("GET", "/api/v1/namespaces/default/secrets/s"):
            f'secrets "s" is forbidden: User "alice" cannot get resource "secrets" {core}',
        ("GET", "/api/v1/nodes"):
            'nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope',
        ("POST", "/api/v1/namespaces/default/pods/p/exec"):
            f'pods "p" is forbidden: User "alice" cannot create resource "pods/exec" {core}',
        ("GET", "/metrics"): 'forbidden: User "alice" cannot get path "/metrics"',
    }  # fmt: skip
    for (method, path), message in asks.items():
        code, body, _ = await client(method, path, Impersonate_User="alice")
        assert (code, body["message"]) == (403, message)


async def test_tokens_and_reviews(client, api, options):
    api.create("serviceaccounts", "default", {"metadata": {"name": "robot"}}, options)
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    code, answer, _ = await client("POST", path, {"spec": {"expirationSeconds": 600}})
    assert code == 201 and answer["status"]["expirationTimestamp"] == "2025-06-02T09:10:00Z"
    bearer = {"Authorization": f"Bearer {answer['status']['token']}"}
    me = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    _, review, _ = await client("POST", me, {}, **bearer)
    info = review["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:robot"
    assert info["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    client.cluster.kernel.advance(client.cluster.kernel.now + 601)
    assert (await client("POST", me, {}, **bearer))[0] == 401
    assert (await client("GET", "/api", Authorization="Bearer nonsense"))[0] == 401
    assert (await client("POST", path, {"spec": {"expirationSeconds": 5}}))[0] == 422
    rules = await client(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in rules[1]["status"]["resourceRules"]
