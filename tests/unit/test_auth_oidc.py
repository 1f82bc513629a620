from __future__ import annotations

import pytest

from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult, OIDCIdPInfo


def test_what_is_optional() -> None:
    assert vars(OIDCIdPInfo("x")) == {"issuer": "x", "clientId": None, "requestScopes": None}
    assert vars(OIDCCallbackResult("x")) == {"access_token": "x", "expires_in_seconds": None, "refresh_token": None}
    context = OIDCCallbackContext(60, "", 1)
    assert (context.refresh_token, context.idp_info) == (None, None)


def test_tokens_are_not_in_the_repr() -> None:
    result = OIDCCallbackResult("hunter2", 3, "hunter3")
    context = OIDCCallbackContext(60, "u", 1, "hunter4", OIDCIdPInfo("x"))
    assert "hunter" not in repr(result) + repr(context)
    assert repr(result) == "OIDCCallbackResult(expires_in_seconds=3)"


def test_a_callback_has_to_fetch() -> None:
    class Nothing(OIDCCallback):
        pass

    with pytest.raises(TypeError, match="fetch"):
        Nothing()  # type: ignore[abstract]
