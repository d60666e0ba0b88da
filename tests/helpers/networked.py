"""A broker's stand-in and a client, to be run on machines of their own.

python networked.py broker NAMESRV OWN FURTHER    registers, and says its name to whoever connects
python networked.py caller NAMESRV                asks where it is, goes there, and prints both
"""

from __future__ import annotations

import socket
import sys

from registering import registration

from pocketmq.protocol.bodies import ClusterInfo, TopicRouteData
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.fields import decode_header
from pocketmq.protocol.headers.namesrv import GetRouteInfoRequest, RegisterBrokerRequest
from pocketmq.remoting.blocking import connect_blocking

NAME = "broker-a"
NAMESRV_PORT = 9876


def be_broker(namesrv: str, own: str, further: str) -> None:
    listener = socket.create_server(("0.0.0.0", port_of(own)))
    command = registration(NAME, own, ["T"], PMQ_ADDRS=further)
    with connect_blocking(namesrv, NAMESRV_PORT) as connection:
        header = decode_header(RegisterBrokerRequest, command.ext_fields)
        answer = connection.request(command.code, header, command.body, timeout=5)
        print("registered" if answer.code == 0 else answer.remark, flush=True)
        while True:
            caller, _ = listener.accept()
            with caller:
                caller.sendall(NAME.encode())


def call(namesrv: str) -> None:
    with connect_blocking(namesrv, NAMESRV_PORT) as connection:
        route = connection.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"), timeout=5)
        cluster = connection.request(RequestCode.GET_BROKER_CLUSTER_INFO, timeout=5)
    [broker] = TopicRouteData.from_json(route.body).broker_datas
    assert ClusterInfo.from_json(cluster.body).broker_addr_table[NAME] == broker
    address = broker.broker_addrs[0]
    print(address)
    try:
        with socket.create_connection((address.rpartition(":")[0], port_of(address)), timeout=5) as connected:
            print(connected.recv(100).decode())
    except OSError as error:
        print(error.strerror or "timed out")


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["broker", namesrv, own, further]:
            be_broker(namesrv, own, further)
        case ["caller", namesrv]:
            call(namesrv)
        case _:
            sys.exit(__doc__)
