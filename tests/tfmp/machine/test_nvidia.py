"""nvidia: what the driver says on recorded machines, and what to make of its silence."""

import os

import nvidia_machines as machines
import pynvml
from fake_nvml import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Fails, FakeCard, FakeNvml
from nvidia_machines import facts_of

from tfmp.machine.nvidia import Card, CardUser, NvidiaFacts


def test_recorded_machines():
    facts = facts_of(machines.H100)
    assert (facts.driver, facts.cuda) == ("580.65.06", (13, 0))
    assert facts.cards == (
        Card(0, "NVIDIA H100 80GB HBM3", (9, 0), 81559, 61, False, uuid="GPU-9c9c"),
    )
    assert facts.users == ()
    assert facts_of(machines.A100_MIG).cuda == (12, 2)
    assert facts_of(machines.V100).cards[0].mig is None
    first, second = facts_of(machines.A100_MIG).cards
    assert (first.mig, first.mig_profiles) == (True, ("3g.20gb", "1g.5gb"))
    assert first.mig_uuids == ("MIG-aaaa", "MIG-bbbb")
    assert (second.mig, second.mig_profiles, second.mig_uuids) == (False, (), ())
    assert facts_of(machines.GTX_1660).users == (
        CardUser(1893, "python3", 3870),
        CardUser(2204, "game.exe", None),
    )
    (card,) = facts_of(machines.H100_MIG).cards
    assert (card.name, card.memory_mib, card.used_mib) == ("NVIDIA H100 80GB HBM3", None, None)
    assert card.mig_profiles == ("3g.40gb", "1g.10gb+me")
    assert facts_of(machines.H100_MIG).users == ()
    assert facts_of(machines.NONE) == NvidiaFacts()


def test_an_old_driver_lacks_functions():
    card = FakeCard("Tesla K80", capability=FUNCTION_NOT_FOUND, mig=FUNCTION_NOT_FOUND)
    facts = facts_of(FakeNvml("440.33.01", FUNCTION_NOT_FOUND, (card,)))
    assert (facts.driver, facts.cuda) == ("440.33.01", None)
    assert (facts.cards[0].compute_capability, facts.cards[0].mig) == (None, None)


def test_a_driver_that_does_not_answer_says_why():
    facts = facts_of(FakeNvml(failure=Fails(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)))
    assert facts == NvidiaFacts(error="NVIDIA's driver does not answer: Driver Not Loaded")


def test_other_users():
    users = ((os.getpid(), 100), (1, 200))
    driver = FakeNvml(cards=(FakeCard(users=users),), programs={1: "/bin/train"})
    assert facts_of(driver).users == (CardUser(1, "train", 200),)
    assert facts_of(FakeNvml(cards=(FakeCard(users=((7, 50),)),))).users == (
        CardUser(7, "unknown", 50),
    )
    assert facts_of(FakeNvml(cards=(FakeCard(users=NOT_SUPPORTED),))).users == ()
