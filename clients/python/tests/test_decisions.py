"""A decision counts where it allows, and everything that it demands is understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_platform_client import Decision, NotPermitted, permitted, require_allow, v1

ids = st.sampled_from(["note", "seal", "burn"])
kinds = st.sampled_from([v1.ProtectionDecision, v1.PolicyDecision, v1.KeyAccessDecision])


@given(kinds, st.booleans(), st.lists(ids, max_size=3), st.lists(ids, max_size=3))
def test_permits(kind: type[Decision], allow: bool, demanded: list[str], understood: list[str]) -> None:
    obligations = [v1.Obligation(id=name, parameters={"audience": "x"}) for name in demanded]
    decision = kind(allow=allow, obligations=obligations, reasons=["tenant/rule"])
    expected = allow and set(demanded) <= set(understood)
    assert permitted(decision, understood) == expected
    if expected:
        return require_allow(decision, understood)
    with pytest.raises(NotPermitted) as raised:
        require_allow(decision, understood)
    assert raised.value.reasons == ("tenant/rule",)
    assert set(raised.value.unknown_obligations) == set(demanded) - set(understood)


def test_a_parameter_that_is_not_known_makes_an_obligation_unknown() -> None:
    decision = v1.PolicyDecision(allow=True, obligations=[v1.Obligation(id="note", parameters={"within": "24"})])
    assert permitted(decision, ["note"])
    assert permitted(decision, ["note"], {"note": ["within"]})
    assert not permitted(decision, ["note"], {"note": ["audience"]})
    assert not permitted(decision, ["note"], {"note": []})
