"""Detection, localization and analysis."""

from __future__ import annotations

from typing import Any

import pytest

from aiopslab.grading import grade_record

RIGHT_NAMES = [
    "productcatalogservice",
    "ProductCatalogService",
    " productcatalogservice ",
    "product-catalog-service",
    "Product Catalog Service",
    "product_catalog",
    "productcatalog",
    "deploy/productcatalogservice",
    "deployment.apps/productcatalogservice",
    "svc/productcatalogservice",
    "shop/productcatalogservice",
    "productcatalogservice.shop.svc.cluster.local",
    "productcatalogservice:3550",
    "Service: productcatalogservice",
    "productcatalogservice-5f6d7c8b9f-bcdfg",
    "pod/productcatalogservice-5f6d7c8b9f-hjklm",
    "productcatalogservice-5f6d7c8b9f",
    "productcatalogservice-6b7c8d9f5-xkwzt",
    "productcatalogservice (wrong port)",
    "`productcatalogservice`",
]


@pytest.mark.parametrize("name", RIGHT_NAMES)
def test_every_spelling_of_the_right_component_is_right(new_run: Any, name: str) -> None:
    run = new_run("localization")
    run.submit("localization", [name])
    result = grade_record(**run.parts())
    assert (result.verdict, result.score) == ("pass", 1.0), result.checks
    assert result.metrics["Localization Accuracy"] == 100.0
    assert result.metrics["success"] is True


@pytest.mark.parametrize(
    "name", ["frontend", "catalog", "product", "service", "9999", "", "redis", "shop", "svc/"]
)
def test_another_name_is_not(new_run: Any, name: str) -> None:
    run = new_run("localization")
    run.submit("localization", [name])
    assert grade_record(**run.parts()).verdict == "fail"


RANKINGS = [  # answers, verdict, score, accuracy@1, accuracy@3, AIOpsLab's accuracy, is_subset
    (["productcatalogservice"], "pass", 1.0, 1.0, 1.0, 100.0, True),
    (["productcatalogservice", "ProductCatalogService"], "pass", 1.0, 1.0, 1.0, 100.0, True),
    (["productcatalogservice", "frontend"], "pass", 1.0, 1.0, 1.0, 50.0, True),
    (["frontend", "productcatalogservice"], "fail", 0.5, 0.0, 1.0, 50.0, True),
    (["frontend", "redis-cart", "productcatalogservice"], "fail", 1 / 3, 0.0, 1.0, 100 / 3, True),
    (["productcatalogservice", "frontend", "redis-cart", "cartservice"], "fail", 0.75, 1.0, 1.0, 25.0, True),
    (
        ["frontend", "redis-cart", "cartservice", "productcatalogservice"],
        "fail",
        0.1875,
        0.0,
        0.0,
        25.0,
        True,
    ),
    (["frontend"], "fail", 0.0, 0.0, 0.0, 0.0, False),
    ([], "fail", 0.0, 0.0, 0.0, 0.0, False),
]


@pytest.mark.parametrize("row", RANKINGS, ids=lambda row: ",".join(row[0]) or "empty")
def test_rankings(new_run: Any, row: tuple[Any, ...]) -> None:
    answers, verdict, score, at_1, at_3, accuracy, subset = row
    run = new_run("localization")
    run.submit("localization", answers, at_s=77.0)
    result = grade_record(**run.parts())
    assert result.verdict == verdict
    assert result.score == pytest.approx(score, abs=1e-6)
    metrics = result.metrics
    assert (metrics["accuracy@1"], metrics["accuracy@3"], metrics["is_subset"]) == (at_1, at_3, subset)
    assert metrics["Localization Accuracy"] == pytest.approx(accuracy)
    assert metrics["TTL"] == 77.0


def test_two_components_at_fault_need_both_first(new_run: Any) -> None:
    for answers, verdict, score in (
        (["cartservice", "redis-cart"], "pass", 1.0),
        (["redis-cart", "cartservice", "frontend"], "pass", 1.0),
        (["cartservice"], "fail", 0.5),
        (["cartservice", "frontend", "redis-cart"], "fail", 0.75),
    ):
        run = new_run("localization")
        run.record.expected.components[:] = ["cartservice", "redis-cart"]
        run.submit("localization", answers)
        result = grade_record(**run.parts())
        assert (result.verdict, result.score) == (verdict, score)
        run.record.expected.components[:] = ["productcatalogservice"]


DETECTIONS = [
    (True, ["Yes"], "pass", "Correct"),
    (True, ["No"], "fail", "Incorrect"),
    (True, ["?"], "fail", "Invalid Format"),
    (True, [], "fail", "Invalid Format"),
    (False, ["No"], "pass", "Correct"),
    (False, ["Yes"], "fail", "Incorrect"),
    (True, ["No", "Yes"], "pass", "Correct"),
]


@pytest.mark.parametrize(("anomaly", "answers", "verdict", "accuracy"), DETECTIONS)
def test_detection(new_run: Any, anomaly: bool, answers: list[str], verdict: str, accuracy: str) -> None:
    run = new_run("detection", anomaly=anomaly)
    for number, answer in enumerate(answers):
        run.submit("detection", answer, at_s=100.0 + 50 * number)
    result = grade_record(**run.parts())
    assert (result.verdict, result.metrics["Detection Accuracy"]) == (verdict, accuracy)
    assert result.score == float(verdict == "pass")


def test_time_to_detect_is_the_first_time_of_the_answer_that_stood(new_run: Any) -> None:
    run = new_run("detection")
    for at_s, answer in ((50.0, "No"), (90.0, "Yes"), (120.0, True)):
        run.submit("detection", answer, at_s)
    assert grade_record(**run.parts()).metrics["TTD"] == 90.0


ANALYSES = [
    ({"system_level": "Virtualization", "fault_type": "Misconfiguration"}, "pass", 1.0),
    ({"system_level": "kubernetes", "fault_type": "wrong-port"}, "pass", 1.0),
    ({"system_level": "Virtualization", "fault_type": "Code Defect"}, "fail", 0.5),
    ({"fault_type": "Misconfiguration"}, "fail", 0.5),
    ({"system_level": ["Virtualization", "Application"], "fault_type": ["Misconfiguration"]}, "fail", 0.5),
    ({"system_level": "Virtualization or Application", "fault_type": "x"}, "fail", 0.0),
    (None, "fail", 0.0),
    ("it is broken", "fail", 0.0),
]


@pytest.mark.parametrize(("value", "verdict", "score"), ANALYSES, ids=repr)
def test_analysis(new_run: Any, value: Any, verdict: str, score: float) -> None:
    run = new_run("analysis")
    run.submit("analysis", value)
    result = grade_record(**run.parts())
    assert (result.verdict, result.score) == (verdict, score)
    assert result.metrics["success"] == (verdict == "pass")


@pytest.mark.parametrize(
    ("task", "value"), [("localization", []), ("localization", "none"), ("analysis", None)]
)
def test_when_nothing_is_wrong_nothing_is_the_answer(new_run: Any, task: str, value: Any) -> None:
    run = new_run(task, anomaly=False)
    run.submit(task, value)
    assert grade_record(**run.parts()).verdict == "pass"
    run.submit(task, {"faulty_components": ["frontend"], "system_level": "Hardware"})
    assert grade_record(**run.parts()).verdict == "fail"
