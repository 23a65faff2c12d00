"""The state machines of the protocol, an event in and commands out: JobMaster, StreamTask, SlotChannelState."""

from kit.core.lazily import offer as _offer

_offer(__name__)
