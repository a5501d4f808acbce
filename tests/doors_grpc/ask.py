"""Asks the door at the socket argv[1] as Python's own gRPC does, with Envoy's own messages."""

import sys

import grpc
from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from envoy.type.v3 import ratelimit_unit_pb2
from google.protobuf import json_format, wrappers_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

Code = rls_pb2.RateLimitResponse
Descriptor = ratelimit_pb2.RateLimitDescriptor


def descriptor(*entries, **more):
    entries = [Descriptor.Entry(key=key, value=value) for key, value in entries]
    return Descriptor(entries=entries, **more)


def main(target, options):
    channel = grpc.insecure_channel(target, options=options)
    stub = rls_pb2_grpc.RateLimitServiceStub(channel)

    def ask(*descriptors, domain="shop", hits=0):
        request = rls_pb2.RateLimitRequest(
            domain=domain, descriptors=descriptors, hits_addend=hits
        )
        return stub.ShouldRateLimit(request, timeout=30)

    who = ("user", "python " + target)
    first = ask(descriptor(who), descriptor(("nobody", "knows")))
    assert first.overall_code == Code.OK, first
    assert [status.code for status in first.statuses] == [Code.OK, Code.OK], first
    limit = first.statuses[0].current_limit
    assert (limit.requests_per_unit, limit.unit) == (10, limit.YEAR), first
    assert first.statuses[0].limit_remaining == 9, first
    assert first.statuses[0].duration_until_reset.seconds > 0, first
    assert not first.statuses[1].HasField("current_limit"), first

    peek = descriptor(who, hits_addend=wrappers_pb2.UInt64Value(value=0))
    assert ask(peek, hits=7).statuses[0].limit_remaining == 9
    assert ask(descriptor(who), hits=7).statuses[0].limit_remaining == 2

    over = ask(descriptor(who), hits=3)
    assert over.overall_code == Code.OVER_LIMIT, over
    assert [header.key for header in over.response_headers_to_add] == ["retry-after"], over

    stated = Descriptor.RateLimitOverride(
        requests_per_unit=3, unit=ratelimit_unit_pb2.MONTH
    )
    stated = ask(descriptor(who, limit=stated)).statuses[0]
    assert (stated.current_limit.unit, stated.limit_remaining) == (limit.MONTH, 2), stated

    for wrong in [dict(domain=""), dict()]:
        try:
            answer = ask(*[descriptor(who)] if wrong else [], **wrong)
            raise AssertionError(f"{wrong} was answered {answer}")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    try:
        ask(descriptor(("user", "x" * 70_000)))
        raise AssertionError("a message of 70,000 bytes was answered")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error

    health = health_pb2_grpc.HealthStub(channel)
    served = health.Check(health_pb2.HealthCheckRequest(), timeout=30)
    assert served.status == served.SERVING, served

    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    wanted = reflection_pb2.ServerReflectionRequest(list_services="")
    told = next(reflection.ServerReflectionInfo(iter([wanted]), timeout=30))
    names = {service.name for service in told.list_services_response.service}
    assert {
        "envoy.service.ratelimit.v3.RateLimitService",
        "grpc.health.v1.Health",
    } <= names, names
    channel.close()


if __name__ == "__main__":
    socket, address = sys.argv[1:]
    main("unix:" + socket, [("grpc.default_authority", "localhost")])
    main("unix://" + socket, [("grpc.default_authority", "localhost")])
    main(address, [])
    # Without an authority of one's own.
    try:
        main("unix:" + socket, [("grpc.keepalive_time_ms", 60_000)])
        print("plain: answered")
    except grpc.RpcError as error:
        print("plain:", error.code().name)
