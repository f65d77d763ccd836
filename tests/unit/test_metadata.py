"""Answers of metadata services: only a machine's own identity is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.metadata import SERVICES, fold, judge, services, token_of, verdict
from linkhold.decide.notices.values import Odd
from linkhold.model.probes import Answer, Heard
from linkhold.survey import cloud

GOOD = {
    "Amazon EC2": "i-0abc1234def567890",
    "Google Cloud": "5551234567890",
    "Microsoft Azure": "02aab8a4-74ef-476e-8182-f6d2ba4166a6",
    "Oracle Cloud": "ocid1.instance.oc1.phx.abcdefgh",
    "Alibaba Cloud": "i-bp13znx0m0me8cquu123",
    "Tencent Cloud": "ins-abcd1234",
    "OpenStack": '{"uuid": "d8e02d56-2648-49a3-bf97-6be8f1204f38"}',
    "Huawei Cloud": '{"uuid": "d8e02d56-2648-49a3-bf97-6be8f1204f38"}',
    "DigitalOcean": "2756294",
    "Hetzner Cloud": "42",
    "Vultr": '{"instanceid": "a747bfz6385e"}',
    "Akamai": '{"id": 12345}',
    "Scaleway": '{"id": "5e7b8f2c"}',
    "UpCloud": '{"cloud_name": "upcloud", "instance_id": "00c2"}',
    "Exoscale": "02aab8a4-74ef-476e-8182-f6d2ba4166a6",
}
FLAVOR = {"Metadata-Flavor": "Google"}
PAGE = "<html><body>Please sign in</body></html>"
LIES = [
    (200, PAGE), (200, ""), (200, "[]"), (200, "{}"), (200, "null"), (200, "OK"),
    (200, '{"id": '), (200, '["i-0abc1234def567890"]'), (302, ""), (401, ""), (403, ""),
    (404, ""), (407, ""), (429, ""), (500, PAGE), (503, ""), (511, PAGE), (204, ""),
]  # fmt: skip


@pytest.mark.parametrize("vendor", GOOD)
def test_identity_is_an_answer(vendor: str) -> None:
    """The machine's identity, as this cloud writes it, is the service's own answer."""
    assert judge(vendor, 200, FLAVOR, GOOD[vendor] + "\n")[0] is Heard.ANSWERS


@pytest.mark.parametrize("vendor", GOOD)
@pytest.mark.parametrize(("status", "body"), LIES)
def test_lies_are_unknown(vendor: str, status: int, body: str) -> None:
    """Pages, redirects, refusals, errors and nonsense are never fine, and say why."""
    heard, why = judge(vendor, status, FLAVOR, body)

    assert heard is Heard.UNKNOWN
    assert why


@pytest.mark.parametrize("status", [201, 302, 401, 500, 503])
@pytest.mark.parametrize("vendor", GOOD)
def test_status_counts_before_the_body(vendor: str, status: int) -> None:
    """A right body with a wrong status is unknown."""
    assert judge(vendor, status, FLAVOR, GOOD[vendor])[0] is Heard.UNKNOWN


def test_google_signs_its_answers() -> None:
    """Without Metadata-Flavor in the answer it is another server's."""
    assert judge("Google Cloud", 200, {}, "123") == (
        Heard.UNKNOWN,
        "without the header metadata-flavor: not the service of Google Cloud",
    )


@given(st.sampled_from([*GOOD, "", "Nebius"]), st.integers(0, 999), st.text(max_size=50))
def test_judging_never_raises(vendor: str, status: int, body: str) -> None:
    """Whatever comes back is an answer or unknown, with a reason on one line."""
    heard, why = judge(vendor, status, FLAVOR, body)

    assert heard in (Heard.ANSWERS, Heard.UNKNOWN)
    assert heard is Heard.ANSWERS or why.isprintable()


def test_vendors_go_by_the_names_of_the_survey() -> None:
    """Each service belongs to a cloud that DMI or cloud-init can tell."""
    known = {vendor for vendor, *_ in cloud.BY_DMI} | set(cloud.BY_CLOUD_ID.values())

    assert {service.vendor for service in SERVICES} <= known
    assert set(GOOD) == {service.vendor for service in SERVICES}


def test_nobody_is_asked_where_no_cloud_is() -> None:
    """A machine of no cloud asks nobody, unless somebody wants it to; another asks its own."""
    assert services("", asked=False) == ()
    assert services("", asked=True) == SERVICES
    assert [one.vendor for one in services("Google Cloud", asked=False)] == ["Google Cloud"]
    assert services("Nebius", asked=True) == ()


def test_tokens_are_judged() -> None:
    """A token is text without spaces; a page or a refusal is none; where optional, 404 is calm."""
    aws, alibaba = services("Amazon EC2", asked=False)[0], services("Alibaba Cloud", asked=False)[0]

    assert token_of(aws, 200, "AQAEAtoken==\n") == "AQAEAtoken=="
    assert token_of(aws, 200, '["AQAEAtoken=="]') == "AQAEAtoken=="
    assert token_of(alibaba, 404, "") == ""
    for status, body in [(404, ""), (403, ""), (200, PAGE), (200, "two words"), (200, "[1]")]:
        with pytest.raises(Odd):
            token_of(aws, status, body)


def of(heard: Heard, target: str = "http://169.254.169.254/x") -> Answer:
    """Return an answer."""
    return Answer("metadata", target, heard)


def test_answers_of_all_clouds_are_folded() -> None:
    """Who answered is the cloud; where nobody did, each address has one word, unknown first."""
    silent, odd, other = of(Heard.SILENT), of(Heard.UNKNOWN), of(Heard.SILENT, "http://[fd00::1]/")

    assert fold([silent, odd, other]) == (odd, other)
    assert fold([silent, of(Heard.ANSWERS), odd]) == (of(Heard.ANSWERS),)
    assert verdict([silent, odd]) is Heard.UNKNOWN
    assert verdict([silent, of(Heard.ANSWERS), of(Heard.UNREACHABLE)]) is Heard.ANSWERS
    assert verdict([]) is Heard.UNKNOWN
