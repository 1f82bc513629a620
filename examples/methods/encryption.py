"""`encryption` is an `AsyncClientEncryption` with a local master key, of `async with AsyncClientEncryption(...) as
encryption`.
"""

from __future__ import annotations

import os

from bson.codec_options import CodecOptions

from motorlite import AsyncDatabase
from motorlite.encryption import Algorithm, AsyncClientEncryption, QueryType
from motorlite.encryption_options import RangeOpts


async def add_key_alt_name(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local")
    await encryption.add_key_alt_name(key, "cards")
    if found := await encryption.get_key(key):
        print(found["keyAltNames"])
        # > ['cards']


async def close(encryption: AsyncClientEncryption) -> None:
    # `async with` does so; the client of the key vault stays open.
    await encryption.close()


async def create_data_key(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local", key_alt_names=["cards"])
    print(key.subtype)  # a UUID
    # > 4


async def create_encrypted_collection(shop: AsyncDatabase) -> None:
    providers = {"local": {"key": os.urandom(96)}}
    fields = {"fields": [{"path": "card", "bsonType": "string", "keyId": None}]}
    async with AsyncClientEncryption(providers, "shop.keys", shop.client, CodecOptions()) as encryption:
        orders, found = await encryption.create_encrypted_collection(shop, "orders", fields, "local")
        # For the `encrypted_fields_map` of a new client.
        print(orders.name, found["fields"][0]["keyId"].subtype)
        # > orders 4


async def decrypt(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local")
    card = await encryption.encrypt("4711", Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_id=key)
    print(await encryption.decrypt(card))
    # > 4711


async def delete_key(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local")
    # Nothing that it has encrypted can be decrypted any more.
    print((await encryption.delete_key(key)).deleted_count)
    # > 1


async def encrypt(encryption: AsyncClientEncryption) -> None:
    await encryption.create_data_key("local", key_alt_names=["cards"])
    deterministic = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic
    card = await encryption.encrypt("4711", deterministic, key_alt_name="cards")
    # Equal values become equal ciphertexts, which queries find.
    print(card.subtype, card == await encryption.encrypt("4711", deterministic, key_alt_name="cards"))
    # > 6 True


async def encrypt_expression(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local")
    expression = await encryption.encrypt_expression(
        {"$and": [{"age": {"$gte": 18}}, {"age": {"$lt": 65}}]},
        Algorithm.RANGE,
        key_id=key,
        query_type=QueryType.RANGE,
        contention_factor=4,
        range_opts=RangeOpts(sparsity=1, trim_factor=1, min=0, max=150),
    )
    print(list(expression))  # for `find`
    # > ['$and']


async def get_key(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local")
    if found := await encryption.get_key(key):
        print(found["masterKey"]["provider"])
        # > local


async def get_key_by_alt_name(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local", key_alt_names=["cards"])
    if found := await encryption.get_key_by_alt_name("cards"):
        print(found["_id"] == key)
        # > True


async def get_keys(encryption: AsyncClientEncryption) -> None:
    await encryption.create_data_key("local", key_alt_names=["cards"])
    async for key in encryption.get_keys():
        print(key["keyAltNames"])
        # > ['cards']


async def remove_key_alt_name(encryption: AsyncClientEncryption) -> None:
    key = await encryption.create_data_key("local", key_alt_names=["cards", "old"])
    await encryption.remove_key_alt_name(key, "old")
    if found := await encryption.get_key(key):
        print(found["keyAltNames"])
        # > ['cards']


async def rewrap_many_data_key(encryption: AsyncClientEncryption) -> None:
    await encryption.create_data_key("local", key_alt_names=["cards"])
    # With a provider and a master key: with that one.
    result = await encryption.rewrap_many_data_key({"keyAltNames": "cards"})
    if result.bulk_write_result is not None:
        print(result.bulk_write_result.modified_count)
        # > 1
