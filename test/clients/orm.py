#!/usr/bin/python3
"""SQLAlchemy with psycopg2, as an application uses it.

    orm.py URL

The models name leaf as the server default of their keys and leave the rest to
the ORM: it creates the tables, sends generated INSERTs one by one and in
batches, and reads the keys back.  Prints "table id" for each object, with the
id as the ORM holds it after the flush.
"""
import sys

from sqlalchemy import BigInteger, Column, ForeignKey, Text, create_engine, text
from sqlalchemy.orm import Session, declarative_base, relationship

Base = declarative_base()


class Customer(Base):
    __tablename__ = "orm_customer"
    id = Column(BigInteger, primary_key=True,
                server_default=text("leaf_segment_nextval('customer')"))
    name = Column(Text, nullable=False)
    invoices = relationship("Invoice", back_populates="customer")


class Invoice(Base):
    __tablename__ = "orm_invoice"
    id = Column(BigInteger, primary_key=True,
                server_default=text("leaf_segment_nextval('invoice')"))
    customer_id = Column(BigInteger, ForeignKey("orm_customer.id"),
                         nullable=False)
    customer = relationship("Customer", back_populates="invoices")


def main():
    engine = create_engine(sys.argv[1])
    # The migration, in one transaction as migration tools do it: tags first,
    # then the tables, then the first rows.
    with engine.begin() as conn:
        for tag in ("customer", "invoice"):
            conn.execute(text("INSERT INTO leaf_alloc (biz_tag) VALUES (:tag)"),
                         {"tag": tag})
        Base.metadata.create_all(conn)
        conn.execute(Customer.__table__.insert(), {"name": "first"})

    with Session(engine) as session:
        single = Customer(name="single")
        session.add(single)
        session.commit()
        many = [Customer(name="customer %d" % i,
                         invoices=[Invoice() for _ in range(3)])
                for i in range(100)]
        session.add_all(many)
        session.flush()
        abandoned = Customer(name="abandoned")
        with session.begin_nested() as savepoint:
            session.add(abandoned)
            session.flush()
            abandoned_id = abandoned.id
            savepoint.rollback()
        after = Customer(name="after")
        session.add(after)
        session.commit()
        if after.id <= abandoned_id:
            raise SystemExit("%d after %d, which was rolled back"
                             % (after.id, abandoned_id))
        for customer in [single, after] + many:
            print("orm_customer", customer.id)
            for invoice in customer.invoices:
                print("orm_invoice", invoice.id)
    return 0


if __name__ == "__main__":
    sys.exit(main())
